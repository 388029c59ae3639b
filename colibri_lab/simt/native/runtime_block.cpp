// The scheduler: the threads of one block, their barriers, and who runs next.
#include <cstring>

#include "runtime.h"

__thread SimtThread *simt_self = nullptr;

namespace simt {

__thread Worker *self_worker = nullptr;

namespace {

constexpr int kNobody = -1, kStop = -2;

inline uint32_t bits_below(uint32_t n) { return n >= 32 ? ~0u : (1u << n) - 1; }
inline uint32_t lanes_after(uint32_t lane) { return ~1u << lane; }  // lane 31: none
inline uint32_t first(uint32_t mask) { return (uint32_t)__builtin_ctz(mask); }

// The next ready thread in another warp, in turn.
int pick_in_other_warp(Worker *w, uint32_t warp) {
  // Lanes that ask have their answer now, but other warps come first: these may be spinning.
  if (w->warps[warp].asking) answer_active_masks(w, warp);
  else w->ready_warps &= ~(1u << warp);
  uint32_t after = w->ready_warps & lanes_after(warp);
  uint32_t warps = after ? after : w->ready_warps;
  if (!warps) return kNobody;
  uint32_t next = first(warps);
  return (int)(next * 32 + first(w->warps[next].ready));
}

// Lanes of the same warp come first: what they share is still in the cache.
inline int pick(Worker *w) {
  if (__builtin_expect(w->grid->stop.load(std::memory_order_relaxed), 0)) return kStop;
  w->progress++;
  uint32_t warp = w->current >> 5, ready = w->warps[warp].ready;
  if (!ready) return pick_in_other_warp(w, warp);
  uint32_t after = ready & lanes_after(w->current & 31);
  return (int)(warp * 32 + first(after ? after : ready));
}

[[noreturn]] void leave_block(Worker *w, Outcome outcome) {
  w->is_deadlocked = outcome == Outcome::DEADLOCK;
  void *ignored;
  simt_switch(&ignored, w->main_sp);
  __builtin_unreachable();
}

void *new_fiber(Worker *w) {
  w->fresh_stack = take_stack(w);
  void **sp = (void **)w->stacks[w->fresh_stack].top;
#if defined(__x86_64__)
  sp -= 2;  // keeps the stack 16-byte aligned where the fiber begins
  sp[0] = sp[1] = nullptr;
  *--sp = (void *)simt_enter_fiber;
  for (int i = 0; i < 6; i++) *--sp = nullptr;
#else
  sp -= 20;
  memset(sp, 0, 160);
  sp[1] = (void *)simt_enter_fiber;
#endif
  return sp;
}

inline void resume(Worker *w, uint32_t from, uint32_t next) {
  w->current = next;
  simt_self = &w->threads[next];
  void *sp = w->sp[next];
  if (!sp) sp = new_fiber(w);
  simt_switch(&w->sp[from], sp);
}

void release_barrier(Worker *w) {
  w->arrived = 0;
  for (uint32_t i = 0; i < w->num_warps; i++) {
    w->warps[i].ready |= w->warps[i].at_barrier;
    w->warps[i].at_barrier = 0;
    if (w->warps[i].ready) w->ready_warps |= 1u << i;
  }
  memcpy(w->reduced, w->reduce, sizeof w->reduce);
  w->reduce[0] = w->reduce[2] = 0;
  w->reduce[1] = 1;
}

void arrive(Worker *w, const void *pc, const char *what) {
  uint32_t me = w->current, bit = 1u << (me & 31);
  Warp &warp = w->warps[me >> 5];
  if (__builtin_expect(w->instrumented, 0)) {
    simt_analysis_barrier(pc, SIMT_BLOCK_BARRIER, 0);
    w->threads[me].barriers++;
  }
  if (++w->arrived == w->alive) {
    release_barrier(w);
    return;
  }
  w->wait_pc[me] = pc;
  w->wait_what[me] = what;
  warp.ready &= ~bit;
  warp.at_barrier |= bit;
  wait_here(w);
}

void start_thread(Worker *w, uint32_t me) {
  SimtThread &t = w->threads[me];
  const Stack &stack = w->stacks[w->stack_of[me]];
  memcpy(t.block_idx, w->block_idx, sizeof t.block_idx);
  t.block_linear = w->block_linear;
  t.barriers = t.warp_barriers = 0;
  t.stack_low = stack.low;
  t.stack_high = stack.high;
  t.analysis = nullptr;
}

// Takes the current thread out of all that others could wait for.
void end_thread(Worker *w) {
  uint32_t me = w->current, bit = 1u << (me & 31);
  Warp &warp = w->warps[me >> 5];
  if (__builtin_expect(w->instrumented, 0)) simt_analysis_thread_exit();
  warp.alive &= ~bit;
  warp.ready &= ~bit;
  w->alive--;
  if (__builtin_expect(warp.num_meetings != 0, 0)) check_meetings(w, me >> 5);
  if (w->arrived && w->arrived == w->alive) release_barrier(w);
}

}  // namespace

void wait_here(Worker *w) {
  uint32_t me = w->current;
  int next = pick(w);
  if (__builtin_expect(next < 0, 0))
    leave_block(w, next == kStop ? Outcome::STOPPED : Outcome::DEADLOCK);
  if ((uint32_t)next != me) resume(w, me, (uint32_t)next);
}

void prepare_launch(Worker *w) {
  const SimtLaunch *launch = w->grid->launch;
  const uint32_t *n = launch->block;
  w->num_threads = n[0] * n[1] * n[2];
  w->num_warps = (w->num_threads + 31) / 32;
  w->instrumented = launch->image->instrumented && simt_analysis_mode();
  uint32_t window = (launch->kernel->static_window_bytes + 15) & ~15u;
  make_shared_memory(w, (size_t)window + launch->dynamic_shared_bytes);
  for (uint32_t i = 0; i < w->num_threads; i++) {
    SimtThread &t = w->threads[i];
    t.thread_idx[0] = i % n[0];
    t.thread_idx[1] = i / n[0] % n[1];
    t.thread_idx[2] = i / n[0] / n[1];
    t.linear = i;
    t.lane = i & 31;
    t.warp = i >> 5;
    t.launch = launch;
    t.static_shared = w->shared;
    t.shared = w->shared + window;
  }
}

Outcome run_block(Worker *w, uint64_t linear) {
  const uint32_t *grid = w->grid->launch->grid;
  w->block_idx[0] = (uint32_t)(linear % grid[0]);
  w->block_idx[1] = (uint32_t)(linear / grid[0] % grid[1]);
  w->block_idx[2] = (uint32_t)(linear / grid[0] / grid[1]);
  w->block_linear = linear;
  memset(w->sp, 0, sizeof(void *) * w->num_threads);
  for (uint32_t i = 0; i < w->num_warps; i++) {
    Warp &warp = w->warps[i];
    warp.alive = warp.ready = bits_below(w->num_threads - i * 32);
    warp.at_barrier = warp.asking = warp.num_meetings = 0;
  }
  w->ready_warps = bits_below(w->num_warps);
  w->alive = w->num_threads;
  w->arrived = 0;
  w->reduce[0] = w->reduce[2] = 0;
  w->reduce[1] = 1;
  w->current = 0;
  w->is_deadlocked = false;
  void *fiber = new_fiber(w);
  simt_self = &w->threads[0];
  w->is_running = true;
  simt_switch(&w->main_sp, fiber);
  w->is_running = false;
  simt_self = nullptr;
  if (w->is_deadlocked) return Outcome::DEADLOCK;
  return w->alive ? Outcome::STOPPED : Outcome::DONE;
}

// Runs threads on this stack, one after another, until one has waited (it keeps the stack, and
// another fiber goes on in its place) or none is left to start.
extern "C" __attribute__((visibility("hidden"))) void simt_fiber_main() {
  Worker *w = self_worker;
  uint32_t stack = w->fresh_stack;
  auto call = w->grid->launch->kernel->call;
  void *const *args = w->grid->launch->args;
  for (;;) {
    uint32_t me = w->current;
    w->stack_of[me] = stack;
    w->sp[me] = w;  // started: anything but null
    start_thread(w, me);
    call(args);
    end_thread(w);
    int next = pick(w);
    if (next < 0) {
      w->free_stacks.push_back(stack);
      leave_block(w, next == kStop ? Outcome::STOPPED
                                   : w->alive ? Outcome::DEADLOCK : Outcome::DONE);
    }
    w->current = (uint32_t)next;
    simt_self = &w->threads[next];
    if (w->sp[next]) {
      w->free_stacks.push_back(stack);
      void *ignored;
      simt_switch(&ignored, w->sp[next]);
    }
  }
}

}  // namespace simt

using namespace simt;

void simt_syncthreads(void) { arrive(self_worker, __builtin_return_address(0), "__syncthreads"); }

uint32_t simt_syncthreads_reduce(uint32_t which, uint32_t value) {
  static const char *const names[] = {"__syncthreads_count", "__syncthreads_and",
                                      "__syncthreads_or"};
  Worker *w = self_worker;
  w->reduce[0] += value != 0;
  w->reduce[1] &= value != 0;
  w->reduce[2] |= value != 0;
  arrive(w, __builtin_return_address(0), names[which]);
  return w->reduced[which];
}

// The next ready thread after this one, in turn over all warps, so that a spinning thread starves
// nobody.
void simt_yield(void) {
  Worker *w = self_worker;
  if (!w || !simt_self) return;
  uint32_t me = w->current, warp = me >> 5;
  if (w->warps[warp].asking) answer_active_masks(w, warp);
  if (w->grid->stop.load(std::memory_order_relaxed)) leave_block(w, Outcome::STOPPED);
  w->progress++;
  uint32_t next = warp, ready = w->warps[warp].ready & lanes_after(me & 31);
  if (!ready) {
    uint32_t after = w->ready_warps & lanes_after(warp);
    next = first(after ? after : w->ready_warps);
    ready = w->warps[next].ready;
  }
  next = next * 32 + first(ready);
  if (next != me) resume(w, me, next);
}
