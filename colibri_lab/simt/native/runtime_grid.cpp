// Grids: blocks are handed out, in order, to as many workers as there are cores.
#include <dlfcn.h>
#include <link.h>
#include <sched.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "runtime.h"

namespace simt {
namespace {

constexpr auto kTick = std::chrono::milliseconds(20);
constexpr int kPatience = 25;          // ticks without a block that ends
constexpr uint32_t kMostHelpers = 255;  // to keep blocks resident that wait for one another

// Helpers sleep until a grid has more blocks than its caller runs alone. Allocated once and never
// freed: threads may outlive the statics of a process that ends.
struct Pool {
  std::mutex one_grid;  // grids run one at a time
  std::mutex lock;
  std::condition_variable wake, done, wake_monitor;
  std::vector<Worker *> workers;  // [0] is the caller's
  uint32_t num_threads = 0;       // helpers started
  Grid *grid = nullptr;           // that helpers may join
  uint64_t number = 0;            // of that grid
  uint32_t wanted = 0, joined = 0, busy = 0;
  bool has_monitor = false, is_monitor_asleep = false;
};
std::atomic<Pool *> pool{nullptr};
std::atomic<Grid *> running{nullptr};
std::atomic<bool> is_cancelled{false};

Worker *make_worker() {
  void *area = mmap(nullptr, sizeof(Worker), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                    -1, 0);
  if (area == MAP_FAILED) return nullptr;
  return new (area) Worker();
}

void record_fault(Worker *w, int from) {
  SimtFault fault = {};
  if (from == 1) fault_from_signal(w, &fault);
  else fault = w->fault;
  if (from == 2 && !strstr(fault.message, " in kernel ")) place_fault(w, &fault);
  stop_with(w->grid, fault);
}

// Everything a fiber held is dropped: no destructor runs in an abandoned block.
void reset_worker(Worker *w) {
  w->is_running = false;
  w->fault_signal = 0;
  simt_self = nullptr;
  w->free_stacks.clear();
  for (size_t i = w->stacks.size(); i-- > 0;) w->free_stacks.push_back((uint32_t)i);
}

void run_blocks(Worker *w, Grid *grid) {
  w->grid = grid;
  w->os_thread = pthread_self();
  reset_worker(w);
  self_worker = w;
  if (int from = sigsetjmp(w->escape, 1)) {
    w->is_running = false;
    record_fault(w, from);
  } else {
    prepare_launch(w);
    while (!grid->stop) {
      uint64_t begin = grid->next_block.fetch_add(grid->chunk);
      if (begin >= grid->num_blocks) break;
      uint64_t end = std::min(begin + grid->chunk, grid->num_blocks);
      for (uint64_t block = begin; block < end && !grid->stop; block++) {
        if (w->instrumented) simt_analysis_begin_block();
        if (run_block(w, block) == Outcome::DEADLOCK) {
          SimtFault fault = {};
          fault_from_deadlock(w, &fault);
          stop_with(grid, fault);
        }
        grid->num_done++;
        if (w->instrumented) simt_analysis_end_block();
      }
    }
  }
  reset_worker(w);
  self_worker = nullptr;
}

void help(Pool *p, Worker *w) {
  sigset_t all;
  sigfillset(&all);
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, kPreempt}) sigdelset(&all, signal);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);  // the rest is for the program's own threads
  stack_t old;
  enter_signal_stack(w, &old);
  uint64_t seen = 0;
  std::unique_lock<std::mutex> hold(p->lock);
  for (;;) {
    p->wake.wait(hold, [&] { return p->grid && p->number != seen && p->joined < p->wanted; });
    seen = p->number;
    p->joined++;
    p->busy++;
    Grid *grid = p->grid;
    hold.unlock();
    run_blocks(w, grid);
    hold.lock();
    if (!--p->busy) p->done.notify_all();
  }
}

// Called with the lock held.
void start_helpers(Pool *p, uint32_t helpers) {
  while (p->num_threads < helpers) {
    Worker *w = make_worker();
    if (!w) return;
    p->workers.push_back(w);
    std::thread(help, p, w).detach();
    p->num_threads++;
  }
}

// A GPU has many blocks at once, so one may wait for another. Where none has ended for long and
// some have not begun, one more helper takes the next.
void add_helper_if_stuck(Pool *p, Grid *grid) {
  bool is_stuck = grid->num_done == grid->seen_done && grid->next_block < grid->num_blocks;
  grid->seen_done = grid->num_done;
  grid->stuck_ticks = is_stuck ? grid->stuck_ticks + 1 : 0;
  if (grid->stuck_ticks < kPatience || p->wanted >= kMostHelpers) return;
  p->wanted++;
  p->grid = grid;
  start_helpers(p, p->wanted);
  p->wake.notify_all();
}

// Signals workers that ought to stop, or have run one thread for a whole tick: it may be spinning
// on what another thread of its block would write.
void monitor(Pool *p) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  int idle = 0;
  std::unique_lock<std::mutex> hold(p->lock);
  for (;;) {
    p->is_monitor_asleep = idle > 50;
    if (p->is_monitor_asleep) {
      p->wake_monitor.wait(hold, [&] { return running.load() != nullptr; });
      p->is_monitor_asleep = false;
      idle = 0;
    } else {
      p->wake_monitor.wait_for(hold, kTick);
    }
    Grid *grid = running;
    idle = grid ? 0 : idle + 1;
    if (grid && is_cancelled) grid->stop = true;
    if (grid && !grid->stop && !grid->is_closed) add_helper_if_stuck(p, grid);
    for (Worker *w : p->workers) {
      if (!grid || !w->is_running) continue;
      if (grid->stop || w->seen_progress == w->progress) pthread_kill(w->os_thread, kPreempt);
      w->seen_progress = w->progress;
    }
  }
}

Pool *get_pool() {
  if (Pool *made = pool.load()) return made;
  static std::mutex once;
  std::lock_guard<std::mutex> hold(once);
  if (Pool *made = pool.load()) return made;
  // Threads do not survive a fork: the child makes its own.
  static bool is_watching = false;
  if (!is_watching) pthread_atfork(nullptr, nullptr, [] { pool = nullptr, running = nullptr; });
  is_watching = true;
  Pool *made = new Pool();
  made->workers.push_back(make_worker());
  pool = made;
  return made;
}

uint32_t num_cores() {
  if (const char *text = getenv("COLIBRI_SIMT_WORKERS")) {
    int asked = atoi(text);
    if (asked > 0) return (uint32_t)std::min(asked, 1024);
  }
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set)) return 1;
  return (uint32_t)std::max(CPU_COUNT(&set), 1);
}

struct ImageSpan {
  const void *inside;
  uintptr_t begin, end;
};

void find_image(Grid *grid) {
  ImageSpan span = {grid->launch->image, 0, 0};
  dl_iterate_phdr(
      [](dl_phdr_info *info, size_t, void *data) {
        auto *s = (ImageSpan *)data;
        uintptr_t low = ~(uintptr_t)0, high = 0;
        for (int i = 0; i < info->dlpi_phnum; i++) {
          const auto &part = info->dlpi_phdr[i];
          if (part.p_type != PT_LOAD) continue;
          low = std::min(low, (uintptr_t)(info->dlpi_addr + part.p_vaddr));
          high = std::max(high, (uintptr_t)(info->dlpi_addr + part.p_vaddr + part.p_memsz));
        }
        if ((uintptr_t)s->inside < low || (uintptr_t)s->inside >= high) return 0;
        s->begin = low;
        s->end = high;
        return 1;
      },
      &span);
  grid->image_begin = span.begin;
  grid->image_end = span.end;
}

}  // namespace

void stop_with(Grid *grid, const SimtFault &fault) {
  std::lock_guard<std::mutex> hold(grid->fault_lock);
  if (!grid->fault.code) grid->fault = fault;
  grid->stop = true;
}

}  // namespace simt

using namespace simt;

void simt_cancel(void) {
  is_cancelled = true;  // a signal handler may call this: the monitor does the rest
}

int simt_run_grid(const SimtLaunch *launch, SimtFault *fault) {
  const uint32_t *n = launch->block;
  uint64_t threads = (uint64_t)n[0] * n[1] * n[2];
  if (!threads || threads > kMaxThreads) {
    if (fault) *fault = {};
    if (fault) fault->code = 1;
    if (fault) strcpy(fault->message, "a block has 1 to 1024 threads");
    return 1;  // CUDA_ERROR_INVALID_VALUE
  }
  Pool *p = get_pool();
  std::lock_guard<std::mutex> one_at_a_time(p->one_grid);
  Grid grid = {};
  grid.launch = launch;
  grid.num_blocks = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
  uint64_t workers = launch->workers ? launch->workers : num_cores();
  workers = std::max<uint64_t>(1, std::min(workers, grid.num_blocks));
  grid.chunk = std::max<uint64_t>(1, std::min<uint64_t>(64, grid.num_blocks / (workers * 32)));
  find_image(&grid);
  install_signal_handlers();
  Worker *mine;
  {
    std::lock_guard<std::mutex> hold(p->lock);
    start_helpers(p, (uint32_t)workers - 1);
    if (!p->has_monitor) std::thread(monitor, p).detach();
    p->has_monitor = true;
    mine = p->workers[0];
    p->wanted = (uint32_t)workers - 1;
    p->joined = 0;
    p->number++;
    p->grid = workers > 1 ? &grid : nullptr;
    is_cancelled = false;
    running = &grid;
    if (p->is_monitor_asleep) p->wake_monitor.notify_one();
  }
  if (workers > 1) p->wake.notify_all();
  stack_t old = {};
  enter_signal_stack(mine, &old);
  run_blocks(mine, &grid);
  sigaltstack(&old, nullptr);
  {
    std::unique_lock<std::mutex> hold(p->lock);
    p->grid = nullptr;
    grid.is_closed = true;
    p->done.wait(hold, [&] { return !p->busy; });
    running = nullptr;
  }
  flush_printed(&grid);
  if (grid.stop && !grid.fault.code) {
    grid.fault.code = 719;
    strcpy(grid.fault.message, "the launch was interrupted");
  }
  if (fault) *fault = grid.fault;
  return grid.fault.code;
}
