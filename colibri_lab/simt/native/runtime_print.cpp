// What kernels call that has to do with neither barriers nor warps: printf, clocks, fences.
#include <cstdarg>
#include <cstdio>

#include "runtime.h"

namespace simt {

constexpr size_t kPrintedAtOnce = 1 << 20;

void flush_printed(Grid *grid) {
  std::lock_guard<std::mutex> hold(grid->print_lock);
  if (grid->printed.empty()) return;
  fwrite(grid->printed.data(), 1, grid->printed.size(), stdout);
  fflush(stdout);
  grid->printed.clear();
}

static std::atomic_flag wide_atomics = ATOMIC_FLAG_INIT;

}  // namespace simt

using namespace simt;

// As on a GPU, the text comes out when the launch ends (or a mebibyte has gathered).
int simt_printf(const char *format, ...) {
  char text[4096];
  va_list list;
  va_start(list, format);
  int length = vsnprintf(text, sizeof text, format, list);
  va_end(list);
  if (length < 0) return -1;
  Grid *grid = self_worker->grid;
  size_t kept = (size_t)length < sizeof text ? (size_t)length : sizeof text - 1;
  bool is_full;
  {
    std::lock_guard<std::mutex> hold(grid->print_lock);
    grid->printed.append(text, kept);
    is_full = grid->printed.size() > kPrintedAtOnce;
  }
  if (is_full) flush_printed(grid);
  return length;
}

// Counts scheduling steps and calls: it always grows, and measures no time.
uint64_t simt_clock(void) {
  Worker *w = self_worker;
  return w->progress * 16 + ++w->clock;
}

void simt_fence(int scope) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (self_worker->instrumented) simt_analysis_fence(__builtin_return_address(0), scope);
}

void simt_lock(void) {
  while (wide_atomics.test_and_set(std::memory_order_acquire)) {
  }
}

void simt_unlock(void) { wide_atomics.clear(std::memory_order_release); }
