// The __tsan_atomic* functions: what a compiler makes of __atomic_* and std::atomic in an image. They
// do the operation (its order strengthened to sequential consistency) and record an atomic access.
#include "analysis.h"

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
__extension__ typedef unsigned __int128 u128;
#define PC __builtin_return_address(0)
#define SEQ __ATOMIC_SEQ_CST

#define FETCH(BITS, T, NAME, OP)                                                                \
  SIMT_API T __tsan_atomic##BITS##_##NAME(volatile T *a, T v, int) {                            \
    simt_analysis_atomic(PC, const_cast<T *>(a), sizeof(T));                                    \
    return OP(a, v, SEQ);                                                                       \
  }
#define ATOMICS(BITS, T)                                                                        \
  SIMT_API T __tsan_atomic##BITS##_load(const volatile T *a, int) {                             \
    simt_analysis_atomic(PC, const_cast<T *>(a), sizeof(T));                                    \
    return __atomic_load_n(a, SEQ);                                                             \
  }                                                                                             \
  SIMT_API void __tsan_atomic##BITS##_store(volatile T *a, T v, int) {                          \
    simt_analysis_atomic(PC, const_cast<T *>(a), sizeof(T));                                    \
    __atomic_store_n(a, v, SEQ);                                                                \
  }                                                                                             \
  FETCH(BITS, T, exchange, __atomic_exchange_n)                                                 \
  FETCH(BITS, T, fetch_add, __atomic_fetch_add)                                                 \
  FETCH(BITS, T, fetch_sub, __atomic_fetch_sub)                                                 \
  FETCH(BITS, T, fetch_and, __atomic_fetch_and)                                                 \
  FETCH(BITS, T, fetch_or, __atomic_fetch_or)                                                   \
  FETCH(BITS, T, fetch_xor, __atomic_fetch_xor)                                                 \
  FETCH(BITS, T, fetch_nand, __atomic_fetch_nand)                                               \
  SIMT_API int __tsan_atomic##BITS##_compare_exchange_strong(volatile T *a, T *c, T v, int,     \
                                                             int) {                             \
    simt_analysis_atomic(PC, const_cast<T *>(a), sizeof(T));                                    \
    return __atomic_compare_exchange_n(a, c, v, false, SEQ, SEQ);                               \
  }                                                                                             \
  SIMT_API int __tsan_atomic##BITS##_compare_exchange_weak(volatile T *a, T *c, T v, int, int) { \
    simt_analysis_atomic(PC, const_cast<T *>(a), sizeof(T));                                    \
    return __atomic_compare_exchange_n(a, c, v, false, SEQ, SEQ);                               \
  }                                                                                             \
  SIMT_API T __tsan_atomic##BITS##_compare_exchange_val(volatile T *a, T c, T v, int, int) {    \
    simt_analysis_atomic(PC, const_cast<T *>(a), sizeof(T));                                    \
    __atomic_compare_exchange_n(a, &c, v, false, SEQ, SEQ);                                     \
    return c;                                                                                   \
  }
ATOMICS(8, u8) ATOMICS(16, u16) ATOMICS(32, u32) ATOMICS(64, u64)

SIMT_API void __tsan_atomic_thread_fence(int order) {
  simt_analysis_fence(PC, 1);
  if (order != __ATOMIC_RELAXED) __atomic_thread_fence(SEQ);
}
SIMT_API void __tsan_atomic_signal_fence(int) {}
