// Where a thread is, how the host calls a kernel, and where __shared__ variables lie.
//
// Loads are asm, so that the analysis, which sees what the compiler loads, sees the kernel's own
// accesses alone. They are not volatile: a thread's place never changes, so they may be merged.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include <utility>

#include "../../native/abi.h"
#include "../vector_types.h"

#if defined(__clang__)
#define SIMT_UNSEEN __attribute__((disable_sanitizer_instrumentation, no_sanitize("coverage")))
#else
#define SIMT_UNSEEN __attribute__((no_sanitize("thread"), no_sanitize_coverage))
#endif
#define SIMT_FN static inline __attribute__((always_inline))

extern "C++" {
namespace simt {

SIMT_FN const SimtThread *self() {
  const SimtThread *p;
#if defined(__x86_64__)
  asm("movq simt_self@gottpoff(%%rip), %0\n\tmovq %%fs:(%0), %0" : "=r"(p));
#else
  uint64_t offset;
  asm("adrp %1, :gottprel:simt_self\n\tldr %1, [%1, :gottprel_lo12:simt_self]\n\t"
      "mrs %0, tpidr_el0\n\tldr %0, [%0, %1]" : "=&r"(p), "=&r"(offset));
#endif
  return p;
}

template <size_t offset> SIMT_FN uint32_t load32(const void *p) {
  uint32_t v;
#if defined(__x86_64__)
  asm("movl %c2(%1), %0" : "=r"(v) : "r"(p), "i"(offset));
#else
  asm("ldr %w0, [%1, %2]" : "=r"(v) : "r"(p), "i"(offset));
#endif
  return v;
}
template <size_t offset> SIMT_FN char *load64(const void *p) {
  char *v;
#if defined(__x86_64__)
  asm("movq %c2(%1), %0" : "=r"(v) : "r"(p), "i"(offset));
#else
  asm("ldr %0, [%1, %2]" : "=r"(v) : "r"(p), "i"(offset));
#endif
  return v;
}

constexpr size_t kThreadIdx = offsetof(SimtThread, thread_idx);
constexpr size_t kBlockIdx = offsetof(SimtThread, block_idx);
constexpr size_t kLaunch = offsetof(SimtThread, launch);
constexpr size_t kGrid = offsetof(SimtLaunch, grid), kBlock = offsetof(SimtLaunch, block);

SIMT_FN uint3 thread_idx() {
  const void *p = self();
  return {load32<kThreadIdx>(p), load32<kThreadIdx + 4>(p), load32<kThreadIdx + 8>(p)};
}
SIMT_FN uint3 block_idx() {
  const void *p = self();
  return {load32<kBlockIdx>(p), load32<kBlockIdx + 4>(p), load32<kBlockIdx + 8>(p)};
}
SIMT_FN dim3 block_dim() {
  const void *p = load64<kLaunch>(self());
  return dim3(load32<kBlock>(p), load32<kBlock + 4>(p), load32<kBlock + 8>(p));
}
SIMT_FN dim3 grid_dim() {
  const void *p = load64<kLaunch>(self());
  return dim3(load32<kGrid>(p), load32<kGrid + 4>(p), load32<kGrid + 8>(p));
}
SIMT_FN uint32_t lane() { return load32<offsetof(SimtThread, lane)>(self()); }
SIMT_FN uint32_t linear_thread() { return load32<offsetof(SimtThread, linear)>(self()); }

// ---- shared memory ---------------------------------------------------------------------------

// One a __shared__ variable. The compiler command reads size and alignment from the object file
// and writes the offset there, packing what each kernel can reach.
struct Slot {
  uint32_t offset, size, align;
};

template <class T> SIMT_FN T &shared_variable(const Slot &slot) {
  uint32_t offset;
#if defined(__x86_64__)
  asm("movl %1, %0" : "=r"(offset) : "m"(slot.offset));
#else
  asm("ldr %w0, %1" : "=r"(offset) : "m"(slot.offset));
#endif
  return *reinterpret_cast<T *>(load64<offsetof(SimtThread, static_shared)>(self()) + offset);
}
template <class T> SIMT_FN T &dynamic_shared() {
  return *reinterpret_cast<T *>(load64<offsetof(SimtThread, shared)>(self()));
}

// ---- kernels -----------------------------------------------------------------------------------

// What the compiler command finds in the object file, and makes the image's table from.
struct KernelEntry {
  void *function;
  void (*call)(void *const *);
  const uint32_t *arg_sizes, *arg_offsets;
  uint32_t num_args, max_threads;
};

// A parameter's type without __restrict__, which is no part of a function's type.
template <class T> struct PlainOf {
  using Type = T;
};
template <class T> struct PlainOf<T *__restrict__> {
  using Type = T *;
};
template <class T> struct PlainOf<T *__restrict__ const> {
  using Type = T *;
};
template <class T> using Plain = typename PlainOf<T>::Type;

template <size_t n> struct Layout {
  uint32_t at[n + 1];
};
template <class... A> constexpr Layout<sizeof...(A)> offsets_of() {
  Layout<sizeof...(A)> layout = {};
  size_t sizes[] = {sizeof(A)..., 0}, aligns[] = {alignof(A)..., 1}, end = 0;
  for (size_t i = 0; i < sizeof...(A); i++) {
    end = (end + aligns[i] - 1) / aligns[i] * aligns[i];
    layout.at[i] = (uint32_t)end;
    end += sizes[i];
  }
  return layout;
}

template <class F, F *f, uint32_t max_threads> struct Kernel;
template <class... A, void (*f)(A...), uint32_t max_threads>
struct Kernel<void(A...), f, max_threads> {
  template <size_t... i>
  SIMT_FN void unpack(void *const *args, std::index_sequence<i...>) {
    f(*reinterpret_cast<std::remove_reference_t<A> *>(args[i])...);
  }
  SIMT_UNSEEN static void call(void *const *args) {
    unpack(args, std::index_sequence_for<A...>());
  }
  static const Layout<sizeof...(A)> sizes, offsets;
  static KernelEntry entry;
};
template <class... A, void (*f)(A...), uint32_t max_threads>
const Layout<sizeof...(A)> Kernel<void(A...), f, max_threads>::sizes = {{sizeof(A)..., 0}};
template <class... A, void (*f)(A...), uint32_t max_threads>
const Layout<sizeof...(A)> Kernel<void(A...), f, max_threads>::offsets = offsets_of<A...>();
template <class... A, void (*f)(A...), uint32_t max_threads>
__attribute__((used)) KernelEntry Kernel<void(A...), f, max_threads>::entry = {
    (void *)f, call, sizes.at, offsets.at, sizeof...(A), max_threads};

}  // namespace simt
}

// threadIdx and its kin are replaced by calls of the above (rewrite_indices.py), not by macros:
// host code in the same file may have variables of these names.
static constexpr int warpSize = 32;
