// A launch from the analysis' side: its image, its workers, its blocks and threads, their barriers.
#include <condition_variable>

#include "analysis.h"

namespace analysis {

std::atomic<unsigned> mode{0};
std::atomic<uint64_t> stamps{1};
Run *run = nullptr;

static std::mutex turn_lock;  // one observed launch at a time
static std::condition_variable turn_over;
static bool is_taken = false;
static uint64_t runs = 0;
static thread_local Worker *mine __attribute__((tls_model("initial-exec"))) = nullptr;
static thread_local uint64_t mine_of __attribute__((tls_model("initial-exec"))) = 0;

static Worker *worker() {
  if (mine_of == run->number) return mine;
  std::lock_guard hold(run->lock);
  run->workers.emplace_back(new Worker);
  mine_of = run->number;
  return mine = run->workers.back().get();
}

// ---- blocks and threads ----------------------------------------------------------------------------------

static void set_segment(Block &block, int segment, const char *low, uint64_t bytes) {
  block.shared_low[segment] = reinterpret_cast<uint64_t>(low);
  block.shared_bytes[segment] = low ? bytes : 0;
  bytes = block.shared_bytes[segment];
  if (mode & SIMT_MEMORY) block.written[segment].assign(bytes + 16, 0);
  if ((mode & SIMT_RACES) && block.cells[segment].size() < bytes / 4 + 4)
    block.cells[segment].resize(bytes / 4 + 4);
}

static Block *start_block(Worker *on, SimtThread *self) {
  on->live.push_back(take_block());
  Block &block = *on->live.back();
  block.number = self->block_linear;
  block.num_threads = run->num_threads;
  block.exited = block.arrived = 0;
  block.worker = on;
  ++block.epoch;  // it only grows: what an earlier block left in cells is past
  block.lanes.assign(block.num_threads, Lane{});
  block.warps.resize((block.num_threads + kLanes - 1) / kLanes);
  for (uint32_t w = 0; w < block.warps.size(); w++) {
    Warp &warp = block.warps[w];
    uint32_t left = block.num_threads - w * kLanes;
    warp = Warp{};
    warp.block = &block;
    warp.number = w;
    warp.all = left >= kLanes ? ~0u : (1u << left) - 1;
    memset(warp.knows, 0, sizeof warp.knows);
    memset(warp.fence_clock, 0, sizeof warp.fence_clock);
    for (uint32_t i = 0; i < kLanes; i++) warp.knows[i][i] = 1;
  }
  const SimtLaunch *launch = run->launch;
  set_segment(block, 0, self->static_shared, launch->kernel->static_window_bytes);
  set_segment(block, 1, self->shared, launch->dynamic_shared_bytes);
  return &block;
}

Lane *enter(SimtThread *self) {
  if (!mode.load(std::memory_order_relaxed) || !run || self->launch != run->launch) return nullptr;
  Worker *on = worker();
  Block *block = nullptr;
  for (auto &one : on->live)
    if (one->number == self->block_linear) block = one.get();
  if (!block) block = start_block(on, self);
  Lane *lane = &block->lanes[self->linear];
  lane->self = self;
  lane->number = self->linear;
  lane->warp = &block->warps[self->linear / kLanes];
  lane->warp->lanes[self->linear % kLanes] = lane;
  lane->key_base = 0xffffull << 48;
  lane->mode = mode.load(std::memory_order_relaxed);
  lane->image_base = run->image->base;
  lane->stack_low = reinterpret_cast<uintptr_t>(self->stack_low);
  lane->stack_bytes = uintptr_t(self->stack_high - self->stack_low);
  self->analysis = lane;
  return lane;
}

static Lane *current() {
  if (!mode.load(std::memory_order_relaxed) || !simt_self) return nullptr;
  Lane *lane = static_cast<Lane *>(simt_self->analysis);
  return lane ? lane : enter(simt_self);
}

static void end_block(Worker *on, size_t at) {
  std::unique_ptr<Block> block = std::move(on->live[at]);
  on->live.erase(on->live.begin() + long(at));
  for (Warp &warp : block->warps) {
    warp.exited = warp.all;
    drain(warp);
  }
  finish_block(std::move(block));
}

// ---- barriers --------------------------------------------------------------------------------------------

static void diverge(const Block &block, uint32_t pc, uint32_t pc2, uint32_t thread,
                    uint32_t thread2, const std::string &note) {
  Finding one{};
  one.trouble = DIVERGENCE;
  one.pc = pc;
  one.pc2 = pc2;
  one.count = 1;
  one.block = block.number;
  one.thread = thread;
  one.thread2 = thread2;
  one.note = note;
  note_finding(block.worker->findings, one);
}

static void complete_barrier(Block &block) {
  if (block.arrived && block.exited)
    diverge(block, block.barrier_pc, 0, block.barrier_thread, 0,
            std::to_string(block.exited) + " of " + std::to_string(block.num_threads) +
                " threads had left");
  if (block.arrived) keep_barrier(block, block.barrier_pc);
  block.arrived = 0;
  block.epoch++;
}

static void rest(Lane *lane, uint32_t &mask) {
  Warp &warp = *lane->warp;
  mask |= 1u << (lane->number % kLanes);
  if ((warp.exited | warp.waiting) == warp.all) {
    drain(warp);
    warp.waiting = 0;
  }
}

static void arrive(Lane *lane, uint32_t pc) {
  Block &block = *lane->warp->block;
  if (block.arrived++ == 0) {
    block.barrier_pc = pc;
    block.barrier_thread = lane->number;
  } else if (block.barrier_pc != pc) {
    diverge(block, block.barrier_pc, pc, block.barrier_thread, lane->number, "");
  }
  rest(lane, lane->warp->waiting);
  if (block.arrived + block.exited >= block.num_threads) complete_barrier(block);
}

static void check_mask(Lane *lane, uint32_t pc, uint32_t mask) {
  if (mask >> (lane->number % kLanes) & 1) return;
  Finding one{};
  one.trouble = MASK;
  one.pc = pc;
  one.count = 1;
  one.block = lane->warp->block->number;
  one.thread = lane->number;
  char text[80];
  snprintf(text, sizeof text, "lane %u is not in the mask 0x%08x", lane->number % kLanes, mask);
  one.note = text;
  note_finding(lane->warp->block->worker->findings, one);
}

// ---- faults ----------------------------------------------------------------------------------------------

// Notes the fault and ends the launch; the runtime adds kernel, line, block and thread to its text.
void fault(Lane *lane, int code, const void *pc, uint64_t address, const std::string &what) {
  SimtFault found{};
  found.code = code;
  found.pc = pc;
  found.address = reinterpret_cast<const void *>(address);
  snprintf(found.message, sizeof found.message, "%s", what.c_str());
  Finding one{};
  one.trouble = code == 716                                         ? MISALIGNED
                : what.find("after free") != std::string::npos ? USE_AFTER_FREE
                                                               : OUT_OF_BOUNDS;
  one.pc = uint32_t(reinterpret_cast<uintptr_t>(pc) - lane->image_base);
  one.count = 1;
  one.block = lane->self->block_linear;
  one.thread = lane->number;
  one.address = address;
  one.note = what;
  note_finding(lane->warp->block->worker->findings, one);
  simt_raise(&found);
}

}  // namespace analysis

using namespace analysis;

SIMT_API void simt_analysis_begin_launch(const SimtLaunch *launch) {
  if (!mode.load()) return;
  std::unique_lock hold(turn_lock);
  turn_over.wait(hold, [] { return !is_taken; });
  is_taken = true;
  Run *one = new Run;
  one->launch = launch;
  one->image = find_image(launch);
  one->num_blocks = uint64_t(launch->grid[0]) * launch->grid[1] * launch->grid[2];
  one->num_threads = launch->block[0] * launch->block[1] * launch->block[2];
  one->number = ++runs;
  set_aside(*one);
  run = one;
}

// What stopped the launch and was not found by the analysis itself: a deadlock, a trap, a signal.
static void note_fault(const SimtFault &fault) {
  for (auto &on : run->workers)
    for (const Finding &one : on->findings)
      if (one.trouble <= MISALIGNED) return;
  const uint32_t *grid = run->launch->grid, *block = run->launch->block;
  Finding one{};
  one.trouble = FAULT;
  uintptr_t place = reinterpret_cast<uintptr_t>(fault.pc) - run->image->base;
  one.pc = place < run->image->bytes ? uint32_t(place) : 0;
  one.count = 1;
  one.block = fault.block[0] + uint64_t(grid[0]) * (fault.block[1] + uint64_t(grid[1]) * fault.block[2]);
  one.thread = fault.thread[0] + block[0] * (fault.thread[1] + block[1] * fault.thread[2]);
  one.note = fault.message;
  run->findings.push_back(one);
}

SIMT_API int simt_analysis_end_launch(const SimtLaunch *launch, SimtFault *fault) {
  if (!run || run->launch != launch) return 0;
  if (fault && fault->code) note_fault(*fault);
  for (auto &on : run->workers)
    while (!on->live.empty()) end_block(on.get(), 0);
  finish_grid();
  keep(*run);
  if (!run->image->is_instrumented) forget_unwritten();
  std::lock_guard hold(turn_lock);
  delete run;
  run = nullptr;
  is_taken = false;
  turn_over.notify_one();
  return 0;
}

SIMT_API void simt_analysis_begin_block() {}

SIMT_API void simt_analysis_end_block() {
  if (!mode.load(std::memory_order_relaxed) || !run || mine_of != run->number) return;
  Worker *on = worker();
  for (size_t i = 0; i < on->live.size();)
    if (on->live.size() == 1 || on->live[i]->exited == on->live[i]->num_threads) {
      end_block(on, i);
    } else {
      i++;
    }
}

SIMT_API void simt_analysis_barrier(const void *pc, int kind, unsigned mask) {
  Lane *lane = current();
  if (!lane) return;
  if (lane->pending) settle(lane);
  uint64_t place = uint64_t(uint32_t(reinterpret_cast<uintptr_t>(pc) - lane->image_base));
  if (kind == SIMT_BLOCK_BARRIER) return arrive(lane, uint32_t(place));
  check_mask(lane, uint32_t(place), mask);
  record(lane, place << 16 | make_key(kind == SIMT_WARP_BARRIER ? WARP_BARRIER : EXCHANGE, 0),
         mask);
}

SIMT_API void simt_analysis_thread_exit() {
  Lane *lane = current();
  if (!lane) return;
  if (lane->pending) settle(lane);
  Block &block = *lane->warp->block;
  block.exited++;
  rest(lane, lane->warp->exited);
  if (block.arrived && block.arrived + block.exited >= block.num_threads)
    complete_barrier(block);
}

SIMT_API unsigned simt_analysis_mode() { return mode.load(); }
