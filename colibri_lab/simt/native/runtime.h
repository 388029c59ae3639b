// What the parts of the runtime share: workers, and the threads of the block that each one runs.
//
// A worker is an operating-system thread that runs one block at a time. A block's CUDA threads are
// fibers: each starts on the stack of the one that ended before it, and takes a stack of its own
// only when it has to wait. So a kernel without barriers runs as a plain loop, without a switch.
#pragma once
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "abi.h"

namespace simt {

constexpr uint32_t kMaxThreads = 1024, kMaxWarps = 32;
constexpr size_t kStackBytes = 256 << 10, kGuardBytes = 16 << 10;

// Works on what the lanes of a meeting brought: slots[lane] for each lane of `lanes`.
using Combine = void (*)(void *const *slots, uint32_t lanes, uint32_t mask);

// Lanes that wait for the rest of their mask in a warp intrinsic.
struct Meeting {
  uint32_t mask, arrived;
  Combine combine;
};

struct Warp {
  uint32_t alive, ready, at_barrier;
  uint32_t asking;        // lanes in __activemask, answered when no other lane can run
  uint32_t num_meetings;  // lanes wait in at most one each
  Meeting meetings[32];
  void *slots[32];
  uint32_t active[32];  // answers of __activemask
};

struct Stack {
  char *low, *high;
  void *top;  // where a new fiber's frames begin: not the same offset in the page for each
};

struct Grid;

struct Worker {
  // The block that runs now. Hot fields first.
  uint32_t current, arrived, alive, ready_warps, num_warps, num_threads;
  uint32_t block_idx[3];
  uint64_t block_linear;
  bool instrumented;
  uint64_t progress;  // switches and starts: tells the monitor that this worker is not stuck
  uint64_t clock;
  Grid *grid;
  void *main_sp;  // the worker's own stack, while fibers run
  Warp warps[kMaxWarps];
  void *sp[kMaxThreads];             // null: not started
  const void *wait_pc[kMaxThreads];  // where a thread waits, and in what
  const char *wait_what[kMaxThreads];
  uint32_t stack_of[kMaxThreads];
  SimtThread threads[kMaxThreads];
  uint32_t reduce[3];  // __syncthreads_count, _and, _or of the barrier under way
  uint32_t reduced[3];

  std::vector<Stack> stacks;
  std::vector<uint32_t> free_stacks;
  uint32_t fresh_stack;  // for the fiber that is entered next
  char *shared;
  size_t shared_bytes;

  pthread_t os_thread;
  std::atomic<bool> is_running;  // kernel code, now
  uint64_t seen_progress;        // the monitor's
  sigjmp_buf escape;
  char *signal_stack;
  bool is_deadlocked;
  volatile sig_atomic_t fault_signal;  // set by the handler
  int fault_code;
  const void *fault_pc, *fault_address;
  SimtFault fault;  // from simt_raise
};

struct Grid {
  const SimtLaunch *launch;
  uint64_t num_blocks, chunk;
  std::atomic<uint64_t> next_block, num_done;
  uint64_t seen_done;  // the monitor's
  int stuck_ticks;
  bool is_closed;  // nothing is left to begin
  std::atomic<bool> stop;
  std::mutex fault_lock;
  SimtFault fault;
  uintptr_t image_begin, image_end;
  std::mutex print_lock;
  std::string printed;
};

extern __thread Worker *self_worker __attribute__((tls_model("initial-exec")));

// runtime_block.cpp
enum class Outcome { DONE, DEADLOCK, STOPPED };
void prepare_launch(Worker *w);                 // once a launch, before run_block
Outcome run_block(Worker *w, uint64_t linear);  // every thread of one block
void wait_here(Worker *w);                      // the current thread is no longer ready
void check_meetings(Worker *w, uint32_t warp);  // after a lane has ended
void answer_active_masks(Worker *w, uint32_t warp);

// runtime_stack.cpp
uint32_t take_stack(Worker *w);
void make_shared_memory(Worker *w, size_t bytes);

// runtime_grid.cpp
void stop_with(Grid *grid, const SimtFault &fault);  // the first fault is kept

// runtime_fault.cpp
void install_signal_handlers();
void enter_signal_stack(Worker *w, stack_t *old);
void fault_from_signal(Worker *w, SimtFault *fault);
void fault_from_deadlock(Worker *w, SimtFault *fault);
void place_fault(Worker *w, SimtFault *fault);
std::string where(const void *pc);  // "kernel.cu:12", or "" where unknown
constexpr int kPreempt = SIGURG;

// runtime_print.cpp
void flush_printed(Grid *grid);

}  // namespace simt

extern "C" void simt_switch(void **save_sp, void *load_sp);
extern "C" void simt_enter_fiber();  // what a new fiber's first switch returns to

// What images call besides abi.h's functions.
SIMT_API void simt_syncthreads(void);
SIMT_API uint32_t simt_syncthreads_reduce(uint32_t which, uint32_t value);
SIMT_API void simt_warp_meet(uint32_t mask, void *slot, simt::Combine combine, const char *what,
                             int kind);
SIMT_API uint32_t simt_activemask(void);
SIMT_API void simt_lockstep(void);
SIMT_API uint64_t simt_clock(void);
SIMT_API void simt_fence(int scope);
SIMT_API int simt_printf(const char *format, ...);
SIMT_API __attribute__((noreturn)) void simt_assert_fail(const char *expression, const char *file,
                                                         unsigned line, const char *function);
SIMT_API __attribute__((noreturn)) void simt_trap(void);
SIMT_API __attribute__((noreturn)) void simt_refuse(const char *what);
SIMT_API void simt_lock(void);  // for atomics wider than the machine's
SIMT_API void simt_unlock(void);
