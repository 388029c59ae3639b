// Data races within a block: two accesses to one word, one of them a write, not both atomic, which
// neither a barrier nor the order of their own thread puts one before the other.
//
// A cell keeps the last write and the readers since (those of one warp as a mask, and one of any
// other warp). Epochs count the block's barriers; Warp::knows says what __syncwarp has ordered.
// What atomics and fences order is looked up only for the few conflicts that are left, when the
// block has ended (analysis_blocks.cpp).
#include "analysis.h"

namespace analysis {

namespace {

struct Access {
  Warp &warp;
  uint32_t pc, lane, thread, epoch;
  Kind kind;
  uint16_t value;
  Space space;
  uint32_t clock() const { return warp.knows[lane][lane]; }
};

constexpr size_t kKeptPerPair = 64;

}  // namespace

// Two strong accesses conflict only where a warp's lanes talk through shared memory: volatile
// orders nothing between lanes that may run apart.
static bool harmless(const Access &now, Kind before, bool same_warp) {
  if (!is_strong(now.kind) || !is_strong(before)) return false;
  return now.kind == ATOMIC || before == ATOMIC || !same_warp || now.space == GLOBAL;
}

static void conflict(const Access &now, uint64_t address, uint32_t pc, uint32_t thread,
                     uint32_t clock, Kind kind, bool same_value) {
  Block &block = *now.warp.block;
  Conflict one{};
  one.address = address;
  one.block = one.block2 = block.number;
  one.pc = pc;
  one.pc2 = now.pc;
  one.thread = thread;
  one.thread2 = now.thread;
  one.epoch = one.epoch2 = now.epoch;
  one.clock = clock;
  one.clock2 = now.clock();
  one.kind = kind;
  one.kind2 = now.kind;
  one.scope = thread / kLanes != now.thread / kLanes;
  one.same_value = same_value;
  block.conflicts.push_back(one);
  if (block.conflicts.size() > 4096 * kKeptPerPair) settle_conflicts(block);
}

static void against_write(const Access &now, const Cell &cell, uint64_t address) {
  if (cell.write_epoch != now.epoch || cell.write_thread == now.thread) return;
  bool same_warp = cell.write_thread / kLanes == now.warp.number;
  if (same_warp && now.warp.knows[now.lane][cell.write_thread % kLanes] >= cell.write_clock)
    return;
  if (harmless(now, cell.write_kind, same_warp)) return;
  bool same = now.kind == WRITE && cell.write_kind == WRITE && cell.write_value == now.value;
  conflict(now, address, cell.write_pc, cell.write_thread, cell.write_clock, cell.write_kind, same);
}

static void against_readers(const Access &now, const Cell &cell, uint64_t address) {
  if (cell.read_epoch != now.epoch) return;
  bool same_warp = cell.read_warp == now.warp.number;
  if (!harmless(now, cell.read_kind, same_warp)) {
    for (uint32_t m = cell.read_mask; m; m &= m - 1) {
      uint32_t lane = uint32_t(__builtin_ctz(m));
      if (same_warp &&
          (lane == now.lane || now.warp.knows[now.lane][lane] >= cell.read_clock))
        continue;
      conflict(now, address, cell.read_pc, cell.read_warp * kLanes + lane, cell.read_clock,
               cell.read_kind, false);
      return;
    }
  }
  if (same_warp && cell.other_pc && !harmless(now, cell.read_kind, false))
    conflict(now, address, cell.other_pc, cell.other_thread, 0, cell.read_kind, false);
}

static void read_cell(const Access &now, Cell &cell, uint64_t address) {
  against_write(now, cell, address);
  uint32_t bit = 1u << now.lane;
  bool fresh = cell.read_epoch != now.epoch;
  if (!fresh && cell.read_warp != now.warp.number) {
    if (!cell.other_pc) {
      cell.other_pc = now.pc;
      cell.other_thread = uint16_t(now.thread);
    }
    return;
  }
  if (!fresh && cell.read_clock == now.clock()) {
    cell.read_mask |= bit;
    if (!is_strong(now.kind)) cell.read_kind = now.kind;
    return;
  }
  if (!fresh)  // readers of an earlier clock give way where they come before this one
    for (uint32_t m = cell.read_mask & ~bit; m; m &= m - 1)
      if (now.warp.knows[now.lane][__builtin_ctz(m)] < cell.read_clock) return;
  cell.read_pc = now.pc;
  cell.read_clock = now.clock();
  cell.read_mask = bit;
  cell.read_kind = now.kind;
  if (!fresh) return;
  cell.read_epoch = now.epoch;
  cell.read_warp = uint16_t(now.warp.number);
  cell.other_pc = 0;
}

static void write_cell(const Access &now, Cell &cell, uint64_t address) {
  against_write(now, cell, address);
  against_readers(now, cell, address);
  cell.write_pc = now.pc;
  cell.write_epoch = now.epoch;
  cell.write_clock = now.clock();
  cell.write_thread = uint16_t(now.thread);
  cell.write_value = now.value;
  cell.write_kind = now.kind;
}

// All lanes read one word that no one wrote in this epoch: the usual broadcast, at once.
static bool broadcast(const Access &first, Cell &cell, uint32_t mask) {
  if (cell.part || cell.write_epoch == first.epoch) return false;
  if (cell.read_epoch == first.epoch) {
    if (cell.read_warp != first.warp.number) {
      if (!cell.other_pc) {
        cell.other_pc = first.pc;
        cell.other_thread = uint16_t(first.thread);
      }
      return true;
    }
    if (cell.read_clock != first.clock()) return false;
    cell.read_mask |= mask;
    return true;
  }
  for (uint32_t m = mask; m; m &= m - 1) {
    uint32_t lane = uint32_t(__builtin_ctz(m));
    if (first.warp.knows[lane][lane] != first.clock()) return false;
  }
  cell.read_pc = first.pc;
  cell.read_clock = first.clock();
  cell.read_mask = mask;
  cell.read_kind = first.kind;
  cell.read_epoch = first.epoch;
  cell.read_warp = uint16_t(first.warp.number);
  cell.other_pc = 0;
  return true;
}

static void one_word(const Access &now, Cell *cell, std::vector<std::array<Cell, 4>> &parts,
                     uint64_t address, uint32_t bytes) {
  each_cell(cell, parts, address, bytes, [&](Cell &part, uint64_t at) {
    if (writes(now.kind)) {
      write_cell(now, part, at);
    } else {
      read_cell(now, part, at);
    }
  });
}

void check_races(Warp &warp, uint64_t key, uint32_t mask, const uint64_t *operands, Space space,
                 int segment) {
  Block &block = *warp.block;
  uint32_t bytes = bytes_of(key), first = uint32_t(__builtin_ctz(mask));
  Access now{warp, pc_of(key), first, 0, block.epoch, kind_of(key), 0, space};
  auto &parts = space == SHARED ? block.parts : block.words.parts;
  auto cell_at = [&](uint64_t address) {
    if (space == GLOBAL) return block.words.word(address);
    return &block.cells[segment][(address - block.shared_low[segment]) >> 2];
  };
  if (now.kind == READ && bytes == 4 && (mask & (mask - 1))) {
    uint64_t differ = 0;
    for (uint32_t m = mask; m; m &= m - 1) differ |= operands[__builtin_ctz(m)] ^ operands[first];
    now.thread = warp.number * kLanes + first;
    if (!differ && broadcast(now, *cell_at(operands[first] & kAddressMask), mask)) return;
  }
  for (uint32_t m = mask; m; m &= m - 1) {
    now.lane = uint32_t(__builtin_ctz(m));
    now.thread = warp.number * kLanes + now.lane;
    now.value = uint16_t(operands[now.lane] >> 48);
    uint64_t address = operands[now.lane] & kAddressMask;
    for (uint32_t done = 0; done < bytes; done += 4)
      one_word(now, cell_at(address + done), parts, address + done, bytes < 4 ? bytes : 4);
  }
}

// An atomic or volatile access, with the counts before and after it of all such accesses: after a
// fence a write releases what came before the fence, and a read acquires what was released.
void strong_access(Warp &warp, uint32_t lane, uint64_t stamp) {
  Block &block = *warp.block;
  uint32_t thread = warp.number * kLanes + lane, before = uint32_t(stamp);
  uint32_t after = stamp >> 32 ? uint32_t(stamp >> 32) : before;
  Kind kind = warp.strong_kind[lane];
  Release one{warp.strong_address[lane], before, block.number, thread, block.epoch, 0, {}};
  memcpy(one.knows.data(), warp.knows[lane], sizeof one.knows);
  if (kind != VOLATILE_READ && warp.fence_clock[lane]) {
    one.clock = warp.fence_clock[lane];
    one.epoch = warp.fence_epoch[lane];
    block.releases.push_back(one);
  }
  if (!run->fenced.load(std::memory_order_relaxed)) return;
  warp.knows[lane][lane]++;
  if (kind == VOLATILE_WRITE) return;
  one.stamp = after;
  one.epoch = block.epoch;
  one.clock = warp.knows[lane][lane];
  block.acquires.push_back(one);
}

}  // namespace analysis
