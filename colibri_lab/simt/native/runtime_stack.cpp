// Stacks of fibers, and a block's shared memory.
#include <sys/mman.h>

#include <cstring>

#include "runtime.h"

namespace simt {
namespace {

// One stack with unmapped room below it, where an overflow faults.
bool map_stack(Stack *stack, uint32_t number) {
  size_t pitch = kStackBytes + kGuardBytes;
  void *area = mmap(nullptr, pitch, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (area == MAP_FAILED) return false;
  // The system limits how many areas a process has: past that, go without.
  mprotect(area, kGuardBytes, PROT_NONE);
  stack->low = (char *)area + kGuardBytes;
  stack->high = (char *)area + pitch;
  // Stacks lie a multiple of 4 KiB apart: without these offsets all frames would share cache sets.
  stack->top = stack->high - 64 - (number * 5 % 64) * 64;
  return true;
}

}  // namespace

uint32_t take_stack(Worker *w) {
  if (w->free_stacks.empty()) {
    Stack stack;
    if (!map_stack(&stack, (uint32_t)w->stacks.size())) {
      SimtFault fault = {};
      fault.code = 2;  // CUDA_ERROR_OUT_OF_MEMORY
      strcpy(fault.message, "no memory for the stack of another thread");
      simt_raise(&fault);
    }
    w->stacks.push_back(stack);
    w->free_stacks.push_back((uint32_t)w->stacks.size() - 1);
  }
  uint32_t taken = w->free_stacks.back();
  w->free_stacks.pop_back();
  return taken;
}

void make_shared_memory(Worker *w, size_t bytes) {
  if (bytes > w->shared_bytes) {
    if (w->shared) munmap(w->shared, w->shared_bytes + 4096);
    w->shared_bytes = (bytes + 0xffff) & ~(size_t)0xffff;
    void *area = mmap(nullptr, w->shared_bytes + 4096, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    w->shared = area == MAP_FAILED ? nullptr : (char *)area;
    if (!w->shared) w->shared_bytes = 0;
    else mprotect(w->shared + w->shared_bytes, 4096, PROT_NONE);
  }
  // Nothing promises zeros: all ones is a NaN in every floating-point type.
  if (w->shared) memset(w->shared, 0xff, bytes);
}

}  // namespace simt
