// Replays the logs of a warp's lanes side by side, as the hardware runs a warp.
//
// While all lanes have the same next event they go on together. Where they differ, the lanes in the
// deepest call go first and, of those, the ones at the first place in the code: a branch's lanes
// thus run until they meet the others after it, and lanes that left a loop wait for those still in
// it (Collange's order of least stack, then least program counter). Each lane's log has its basic
// blocks too, so no iteration of a loop is mistaken for another.
#include "analysis.h"

namespace analysis {

static void perform(Warp &warp, uint64_t key, uint32_t mask, const uint64_t *operands);

static inline uint32_t last_of(uint32_t mask) { return uint32_t(__builtin_ctz(mask)); }

// Memory before a warp barrier comes before what follows it, for the lanes that meet there.
static void meet(Warp &warp, uint32_t mask) {
  uint32_t joined[kLanes] = {};
  for (uint32_t m = mask; m; m &= m - 1)
    for (uint32_t i = 0; i < kLanes; i++) {
      uint32_t known = warp.knows[last_of(m)][i];
      if (known > joined[i]) joined[i] = known;
    }
  for (uint32_t m = mask; m; m &= m - 1) {
    uint32_t lane = last_of(m);
    memcpy(warp.knows[lane], joined, sizeof joined);
    warp.knows[lane][lane]++;
  }
}

static void perform(Warp &warp, uint64_t key, uint32_t mask, const uint64_t *operands) {
  switch (kind_of(key)) {
    case EXCHANGE:
      return;
    case WARP_BARRIER:
      return meet(warp, mask);
    case FENCE:
      for (uint32_t m = mask; m; m &= m - 1) {
        uint32_t lane = last_of(m);
        warp.fence_clock[lane] = warp.knows[lane][lane];
        warp.fence_epoch[lane] = warp.block->epoch;
        warp.knows[lane][lane]++;
      }
      return;
    case STAMP:
      for (uint32_t m = mask; m; m &= m - 1)
        strong_access(warp, last_of(m), operands[last_of(m)]);
      return;
    default:
      request(warp, key, mask, operands);
  }
}

static inline bool meets(uint64_t key) {
  Kind kind = kind_of(key);
  return kind == WARP_BARRIER || kind == EXCHANGE;
}

// Lets all lanes go on together for up to `count` events; stops where they differ.
static void lockstep(Warp &warp, const uint32_t *live, uint32_t num_live, uint32_t mask,
                     size_t count) {
  uint64_t operands[kLanes];
  const Event *heads[kLanes];
  for (uint32_t i = 0; i < num_live; i++) heads[i] = warp.lanes[live[i]]->head;
  size_t done = 0;
  for (; done < count; done++) {
    uint64_t key = heads[0][done].key, differ = 0;
    for (uint32_t i = 0; i < num_live; i++) {
      const Event &event = heads[i][done];
      differ |= event.key ^ key;
      operands[live[i]] = event.address;
    }
    if (differ) break;
    if (meets(key)) {
      uint32_t wanted = uint32_t(operands[live[0]]) & warp.all & ~warp.exited;
      for (uint32_t i = 0; i < num_live; i++) differ |= operands[live[i]] ^ operands[live[0]];
      if (differ || (wanted & ~mask)) break;
    }
    perform(warp, key, mask, operands);
  }
  for (uint32_t i = 0; i < num_live; i++) warp.lanes[live[i]]->head += done;
}

// The lanes of `mask` whose next event is this one take it.
static void take(Warp &warp, uint64_t key, uint32_t mask) {
  uint64_t operands[kLanes];
  for (uint32_t m = mask; m; m &= m - 1)
    operands[last_of(m)] = warp.lanes[last_of(m)]->head++->address;
  perform(warp, key, mask, operands);
}

// One step of the lanes that go first. False where none can: they wait for lanes still to come.
static bool step(Warp &warp, uint32_t live, bool is_final) {
  uint64_t least = ~0ull;
  uint32_t group = 0, blocked = 0;
  for (uint32_t m = live; m; m &= m - 1) {
    uint32_t lane = last_of(m);
    uint64_t key = warp.lanes[lane]->head->key;
    if (meets(key)) {
      blocked |= 1u << lane;
    } else if (key < least) {
      least = key;
      group = 1u << lane;
    } else if (key == least) {
      group |= 1u << lane;
    }
  }
  if (group) return take(warp, least, group), true;
  for (uint32_t m = blocked; m; m &= m - 1) {
    const Event *event = warp.lanes[last_of(m)]->head;
    uint32_t wanted = uint32_t(event->address) & warp.all, ready = 0;
    for (uint32_t b = blocked & wanted; b; b &= b - 1)
      if (uint32_t(warp.lanes[last_of(b)]->head->address) == uint32_t(event->address))
        ready |= 1u << last_of(b);
    if (ready && !(wanted & ~ready & ~(warp.exited & ~live)))
      return take(warp, warp.lanes[last_of(ready)]->head->key, ready), true;
  }
  if (!is_final || !blocked) return false;
  take(warp, warp.lanes[last_of(blocked)]->head->key, 1u << last_of(blocked));
  return true;
}

static void release_logs(Warp &warp) {
  for (uint32_t m = warp.all; m; m &= m - 1) {
    Lane *lane = warp.lanes[last_of(m)];
    if (!lane || !lane->log) continue;
    warp.block->worker->free_logs.push_back(lane->log);
    lane->log = lane->head = lane->next = lane->limit = nullptr;
  }
}

// Replays what is certain: up to where a lane that still runs has nothing recorded yet.
void drain(Warp &warp) {
  uint32_t at_rest = warp.exited | warp.waiting;
  bool is_final = at_rest == warp.all;
  for (;;) {
    uint32_t live = 0, num_live = 0, order[kLanes], running_dry = 0;
    size_t count = kLogEvents;
    for (uint32_t m = warp.all; m; m &= m - 1) {
      uint32_t lane = last_of(m);
      const Lane *it = warp.lanes[lane];
      size_t left = it ? size_t(it->next - it->head) : 0;
      if (!left) {
        running_dry |= 1u << lane;
        continue;
      }
      live |= 1u << lane;
      order[num_live++] = lane;
      if (left < count) count = left;
    }
    if (running_dry & ~at_rest) {
      // A lane with nothing recorded holds the rest up, unless it waits in a warp's barrier.
      return;
    }
    if (!live) break;
    const Event *before = warp.lanes[order[0]]->head;
    lockstep(warp, order, num_live, live, count);
    if (warp.lanes[order[0]]->head != before) continue;
    if (!step(warp, live, is_final)) return;
  }
  if (is_final) release_logs(warp);
}

// Replays all that this lane has, alone: other lanes wait for it while it waits for them.
void force(Lane *lane) {
  while (lane->head != lane->next) {
    uint64_t operands[kLanes];
    operands[lane->self->lane] = lane->head->address;
    perform(*lane->warp, lane->head->key, 1u << lane->self->lane, operands);
    lane->head++;
  }
}

}  // namespace analysis
