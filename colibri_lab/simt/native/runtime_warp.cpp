// Warp intrinsics: lanes meet by mask, whatever line they come from, as on Volta and later.
#include <cstdio>
#include <cstring>

#include "runtime.h"

namespace simt {
namespace {

Meeting *find_meeting(Warp &warp, uint32_t mask, Combine combine) {
  for (uint32_t i = 0; i < warp.num_meetings; i++)
    if (warp.meetings[i].mask == mask && warp.meetings[i].combine == combine)
      return &warp.meetings[i];
  Meeting *made = &warp.meetings[warp.num_meetings++];
  *made = Meeting{mask, 0, combine};
  return made;
}

inline bool is_complete(const Warp &warp, const Meeting &m) {
  uint32_t needed = m.mask & warp.alive;
  return (m.arrived & needed) == needed;
}

void complete(Worker *w, uint32_t number, Meeting *m) {
  Warp &warp = w->warps[number];
  Meeting done = *m;
  *m = warp.meetings[--warp.num_meetings];
  if (done.combine) done.combine(warp.slots, done.arrived, done.mask);
  warp.ready |= done.arrived;
  w->ready_warps |= 1u << number;
}

[[noreturn]] void refuse_mask(const char *what, uint32_t mask, uint32_t lane) {
  SimtFault fault = {};
  fault.code = 719;
  fault.pc = self_worker->wait_pc[self_worker->current];
  snprintf(fault.message, sizeof fault.message,
           "lane %u calls %s with the mask 0x%08x, which leaves that lane out", lane, what, mask);
  simt_raise(&fault);
}

}  // namespace

void check_meetings(Worker *w, uint32_t number) {
  Warp &warp = w->warps[number];
  for (uint32_t i = 0; i < warp.num_meetings;) {
    if (is_complete(warp, warp.meetings[i]))
      complete(w, number, &warp.meetings[i]);
    else
      i++;
  }
}

// Lanes that ask at the same place get one mask: those that run together as far as can be.
void answer_active_masks(Worker *w, uint32_t number) {
  Warp &warp = w->warps[number];
  uint32_t left = warp.asking;
  while (left) {
    const void *pc = w->wait_pc[number * 32 + (uint32_t)__builtin_ctz(left)];
    uint32_t group = 0;
    for (uint32_t rest = left; rest; rest &= rest - 1) {
      uint32_t lane = (uint32_t)__builtin_ctz(rest);
      if (w->wait_pc[number * 32 + lane] == pc) group |= 1u << lane;
    }
    for (uint32_t rest = group; rest; rest &= rest - 1) warp.active[__builtin_ctz(rest)] = group;
    left &= ~group;
  }
  warp.ready |= warp.asking;
  warp.asking = 0;
  w->ready_warps |= 1u << number;
}

}  // namespace simt

using namespace simt;

void simt_warp_meet(uint32_t mask, void *slot, Combine combine, const char *what, int kind) {
  Worker *w = self_worker;
  uint32_t me = w->current, lane = me & 31, bit = 1u << lane;
  Warp &warp = w->warps[me >> 5];
  w->wait_pc[me] = __builtin_return_address(0);
  if (__builtin_expect(!(mask & bit), 0)) refuse_mask(what, mask, lane);
  if (__builtin_expect(w->instrumented, 0)) {
    simt_analysis_barrier(w->wait_pc[me], kind, mask);
    w->threads[me].warp_barriers += kind == SIMT_WARP_BARRIER;
  }
  Meeting *m = find_meeting(warp, mask, combine);
  m->arrived |= bit;
  warp.slots[lane] = slot;
  if (is_complete(warp, *m)) {
    complete(w, me >> 5, m);
    return;
  }
  w->wait_what[me] = what;
  warp.ready &= ~bit;
  wait_here(w);
}

uint32_t simt_activemask(void) {
  Worker *w = self_worker;
  uint32_t me = w->current, lane = me & 31;
  Warp &warp = w->warps[me >> 5];
  w->wait_pc[me] = __builtin_return_address(0);
  w->wait_what[me] = "__activemask";
  warp.ready &= ~(1u << lane);
  warp.asking |= 1u << lane;
  wait_here(w);
  return warp.active[lane];
}

// Goes on when no other lane of the warp can run without this one having had its turn.
void simt_lockstep(void) {
  Worker *w = self_worker;
  uint32_t me = w->current;
  Warp &warp = w->warps[me >> 5];
  w->wait_pc[me] = __builtin_return_address(0);
  w->wait_what[me] = "an access to volatile";
  warp.ready &= ~(1u << (me & 31));
  warp.asking |= 1u << (me & 31);
  wait_here(w);
}
