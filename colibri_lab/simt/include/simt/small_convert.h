// Conversions of half and bfloat16, as macros: `half` or `bfloat16` is spliced into CUDA's names.
#pragma once
#include "small_float.h"

#define SIMT_SMALL_CONVERT(T, T2, RAW, n, any_bits)                                           \
  SIMT_FN T __float2##n(float v) { return T(v); }                                             \
  SIMT_FN T __float2##n##_rn(float v) { return T(v); }                                        \
  SIMT_FN T __float2##n##_rz(float v) { return T(RAW{any_bits(v, simt::TO_ZERO)}); }          \
  SIMT_FN T __float2##n##_ru(float v) { return T(RAW{any_bits(v, simt::UP)}); }               \
  SIMT_FN T __float2##n##_rd(float v) { return T(RAW{any_bits(v, simt::DOWN)}); }             \
  SIMT_FN T __double2##n(double v) { return T(v); }                                           \
  SIMT_FN float __##n##2float(T v) { return v; }                                              \
  SIMT_FN T2 __##n##2##n##2(T v) { return T2(v, v); }                                         \
  SIMT_FN T2 __float2##n##2_rn(float v) { return T2(T(v), T(v)); }                            \
  SIMT_FN T2 __floats2##n##2_rn(float a, float b) { return T2(T(a), T(b)); }                  \
  SIMT_FN T2 __float22##n##2_rn(float2 v) { return T2(T(v.x), T(v.y)); }                      \
  SIMT_FN float2 __##n##22float2(T2 v) { return {(float)v.x, (float)v.y}; }                   \
  SIMT_FN T __low2##n(T2 v) { return v.x; }                                                   \
  SIMT_FN T __high2##n(T2 v) { return v.y; }                                                  \
  SIMT_FN float __low2float(T2 v) { return v.x; }                                             \
  SIMT_FN float __high2float(T2 v) { return v.y; }                                            \
  SIMT_FN T2 __low2##n##2(T2 v) { return T2(v.x, v.x); }                                      \
  SIMT_FN T2 __high2##n##2(T2 v) { return T2(v.y, v.y); }                                     \
  SIMT_FN T2 __lows2##n##2(T2 a, T2 b) { return T2(a.x, b.x); }                               \
  SIMT_FN T2 __highs2##n##2(T2 a, T2 b) { return T2(a.y, b.y); }                              \
  SIMT_FN T2 __lowhigh2highlow(T2 v) { return T2(v.y, v.x); }                                 \
  SIMT_FN short __##n##_as_short(T v) { return (short)v.__x; }                                \
  SIMT_FN unsigned short __##n##_as_ushort(T v) { return v.__x; }                             \
  SIMT_FN T __short_as_##n(short v) { return T(RAW{(unsigned short)v}); }                     \
  SIMT_FN T __ushort_as_##n(unsigned short v) { return T(RAW{v}); }                           \
  SIMT_SMALL_INTEGERS(T, n, int, int)                                                         \
  SIMT_SMALL_INTEGERS(T, n, uint, unsigned)                                                   \
  SIMT_SMALL_INTEGERS(T, n, short, short)                                                     \
  SIMT_SMALL_INTEGERS(T, n, ushort, unsigned short)                                           \
  SIMT_SMALL_INTEGERS(T, n, ll, long long)                                                    \
  SIMT_SMALL_INTEGERS(T, n, ull, unsigned long long)
#define SIMT_SMALL_INTEGERS(T, n, i, I)                                                       \
  SIMT_FN T __##i##2##n##_rn(I v) { return T((double)v); }                                    \
  SIMT_FN I __##n##2##i##_rn(T v) { return simt_saturate<I>(rintf(v)); }                      \
  SIMT_FN I __##n##2##i##_rz(T v) { return simt_saturate<I>(truncf(v)); }                     \
  SIMT_FN I __##n##2##i##_rd(T v) { return simt_saturate<I>(floorf(v)); }                     \
  SIMT_FN I __##n##2##i##_ru(T v) { return simt_saturate<I>(ceilf(v)); }
