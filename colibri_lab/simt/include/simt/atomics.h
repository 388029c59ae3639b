// Atomics: truly atomic between the workers that run blocks side by side.
#pragma once
#include "warp.h"

#if defined(SIMT_INSTRUMENTED)
// Read-modify-write loops are one atomic to the analysis, and reported as such.
#define SIMT_ATOMIC_LOOP SIMT_UNSEEN static __attribute__((noinline))
#define SIMT_SAW_ATOMIC(p) \
  simt_analysis_atomic(__builtin_return_address(0), (void *)(p), sizeof *(p))
#else
#define SIMT_ATOMIC_LOOP static inline
#define SIMT_SAW_ATOMIC(p) ((void)0)
#endif

extern "C++" {
namespace simt {

template <size_t n> struct BitsOf;
template <> struct BitsOf<2> { using Type = uint16_t; };
template <> struct BitsOf<4> { using Type = uint32_t; };
template <> struct BitsOf<8> { using Type = uint64_t; };

template <class To, class From> SIMT_FN To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From), "same size");
  To to;
  __builtin_memcpy(&to, &from, sizeof to);
  return to;
}

// old = *p; *p = change(old), whatever the type.
template <class T, class Change> SIMT_ATOMIC_LOOP T update(T *p, Change change) {
  using Bits = typename BitsOf<sizeof(T)>::Type;
  SIMT_SAW_ATOMIC(p);
  Bits old = __atomic_load_n((Bits *)p, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n((Bits *)p, &old, bit_cast<Bits>(change(bit_cast<T>(old))),
                                      true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
  }
  return bit_cast<T>(old);
}
// Two or four values side by side, each atomic alone, as CUDA promises for vectors.
template <class V, class T> SIMT_FN V update_parts(V *p, V v, T) {
  V old;
  for (size_t i = 0; i < sizeof(V) / sizeof(T); i++) {
    T change = ((T *)&v)[i];
    ((T *)&old)[i] = update((T *)p + i, [=](T o) { return o + change; });
  }
  return old;
}
// A thread that changed nothing may be polling: let those run that it waits for.
template <class T> SIMT_FN T polled(T old, bool is_same) {
  if (is_same) simt_yield();
  return old;
}

}  // namespace simt

#define SIMT_SCOPES(define) define() define(_block) define(_system)

#define SIMT_ATOMIC_INT(name, builtin, T, sfx)                          \
  SIMT_FN T name##sfx(T *p, T v) {                                      \
    return simt::polled((T)builtin(p, v, __ATOMIC_SEQ_CST), v == 0);    \
  }
#define SIMT_ATOMIC_BITS(name, builtin, T, sfx) \
  SIMT_FN T name##sfx(T *p, T v) { return (T)builtin(p, v, __ATOMIC_SEQ_CST); }
#define SIMT_ATOMIC_PICK(name, less, T, sfx) \
  SIMT_FN T name##sfx(T *p, T v) {           \
    return simt::update(p, [=](T o) { return (less) ? v : o; }); \
  }
#define SIMT_ATOMIC_SUM(T, sfx) \
  SIMT_FN T atomicAdd##sfx(T *p, T v) { return simt::update(p, [=](T o) { return o + v; }); }
#define SIMT_ATOMIC_EXCH(T, sfx)                                                        \
  SIMT_FN T atomicExch##sfx(T *p, T v) {                                                \
    using Bits = simt::BitsOf<sizeof(T)>::Type;                                         \
    Bits now = simt::bit_cast<Bits>(v);                                                 \
    Bits old = __atomic_exchange_n((Bits *)p, now, __ATOMIC_SEQ_CST);                   \
    return simt::polled(simt::bit_cast<T>(old), old == now);                            \
  }
#define SIMT_ATOMIC_CAS(T, sfx)                                                         \
  SIMT_FN T atomicCAS##sfx(T *p, T expected, T v) {                                     \
    T old = expected;                                                                   \
    bool done = __atomic_compare_exchange_n(p, &old, v, false, __ATOMIC_SEQ_CST,        \
                                            __ATOMIC_SEQ_CST);                          \
    return simt::polled(old, !done);                                                    \
  }

#define SIMT_FOR_INT(T, sfx)                                  \
  SIMT_ATOMIC_INT(atomicAdd, __atomic_fetch_add, T, sfx)      \
  SIMT_ATOMIC_INT(atomicOr, __atomic_fetch_or, T, sfx)        \
  SIMT_ATOMIC_INT(atomicXor, __atomic_fetch_xor, T, sfx)      \
  SIMT_ATOMIC_BITS(atomicAnd, __atomic_fetch_and, T, sfx)     \
  SIMT_ATOMIC_PICK(atomicMin, v < o, T, sfx)                  \
  SIMT_ATOMIC_PICK(atomicMax, o < v, T, sfx)                  \
  SIMT_ATOMIC_EXCH(T, sfx)                                    \
  SIMT_ATOMIC_CAS(T, sfx)

#define SIMT_ALL(sfx)                                                                     \
  SIMT_FOR_INT(int, sfx)                                                                  \
  SIMT_FOR_INT(unsigned int, sfx)                                                         \
  SIMT_FOR_INT(long long, sfx)                                                            \
  SIMT_FOR_INT(unsigned long long, sfx)                                                   \
  SIMT_FOR_INT(unsigned long, sfx)                                                        \
  SIMT_ATOMIC_BITS(atomicSub, __atomic_fetch_sub, int, sfx)                               \
  SIMT_ATOMIC_BITS(atomicSub, __atomic_fetch_sub, unsigned int, sfx)                      \
  SIMT_ATOMIC_SUM(float, sfx)                                                             \
  SIMT_ATOMIC_SUM(double, sfx)                                                            \
  SIMT_ATOMIC_EXCH(float, sfx)                                                            \
  SIMT_ATOMIC_CAS(unsigned short, sfx)                                                    \
  SIMT_FN unsigned atomicInc##sfx(unsigned *p, unsigned top) {                            \
    return simt::update(p, [=](unsigned o) { return o >= top ? 0 : o + 1; });             \
  }                                                                                       \
  SIMT_FN unsigned atomicDec##sfx(unsigned *p, unsigned top) {                            \
    return simt::update(p, [=](unsigned o) { return o == 0 || o > top ? top : o - 1; });  \
  }                                                                                       \
  SIMT_FN float2 atomicAdd##sfx(float2 *p, float2 v) { return simt::update_parts(p, v, 0.f); } \
  SIMT_FN float4 atomicAdd##sfx(float4 *p, float4 v) { return simt::update_parts(p, v, 0.f); }

SIMT_SCOPES(SIMT_ALL)

// Types of 16 bytes: the machine may lack such an instruction, so a lock serves all of them.
template <class T> SIMT_FN T simt_wide_atomic(T *p, const T *expected, T v) {
  static_assert(sizeof(T) == 16, "atomicCAS and atomicExch take 2, 4, 8 or 16 bytes");
  SIMT_SAW_ATOMIC(p);
  simt_lock();
  T old = *p;
  if (!expected || __builtin_memcmp(&old, expected, 16) == 0) *p = v;
  simt_unlock();
  return old;
}
template <class T> SIMT_FN T atomicCAS(T *p, T expected, T v) {
  return simt_wide_atomic(p, &expected, v);
}
template <class T> SIMT_FN T atomicExch(T *p, T v) {
  return simt_wide_atomic(p, (const T *)nullptr, v);
}
}
#undef SIMT_ALL
#undef SIMT_FOR_INT
