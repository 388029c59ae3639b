// Integer intrinsics, bit casts and conversions.
#pragma once
#include <math.h>

#include "core.h"

extern "C++" {
SIMT_FN int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
SIMT_FN int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
SIMT_FN int __ffs(int x) { return __builtin_ffs(x); }
SIMT_FN int __ffsll(long long x) { return __builtin_ffsll(x); }
SIMT_FN int __popc(unsigned x) { return __builtin_popcount(x); }
SIMT_FN int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
SIMT_FN unsigned __brev(unsigned x) {
  x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
  x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
  x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
  return __builtin_bswap32(x);
}
SIMT_FN unsigned long long __brevll(unsigned long long x) {
  return (unsigned long long)__brev((unsigned)x) << 32 | __brev((unsigned)(x >> 32));
}
// The position of the n-th set bit from `base` up (n > 0) or down (n < 0); ~0 where there is none.
SIMT_FN unsigned __fns(unsigned mask, unsigned base, int n) {
  if (n == 0) return mask >> base & 1 ? base : ~0u;
  int step = n > 0 ? 1 : -1, left = n > 0 ? n : -n;
  for (int at = (int)base; at >= 0 && at < 32; at += step)
    if (mask >> at & 1 && --left == 0) return (unsigned)at;
  return ~0u;
}
SIMT_FN unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  unsigned long long both = (unsigned long long)b << 32 | a;
  unsigned out = 0;
  for (int i = 0; i < 4; i++) {
    unsigned pick = selector >> (4 * i), byte = (unsigned)(both >> (8 * (pick & 7))) & 0xff;
    if (pick & 8) byte = byte & 0x80 ? 0xff : 0;
    out |= byte << (8 * i);
  }
  return out;
}
SIMT_FN unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned n) {
  return (unsigned)((((unsigned long long)hi << 32 | lo) << (n & 31)) >> 32);
}
SIMT_FN unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned n) {
  return (unsigned)(((unsigned long long)hi << 32 | lo) >> (n & 31));
}
SIMT_FN unsigned __funnelshift_lc(unsigned lo, unsigned hi, unsigned n) {
  return n >= 32 ? lo : __funnelshift_l(lo, hi, n);
}
SIMT_FN unsigned __funnelshift_rc(unsigned lo, unsigned hi, unsigned n) {
  return n >= 32 ? hi : __funnelshift_r(lo, hi, n);
}
SIMT_FN int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
SIMT_FN unsigned __umulhi(unsigned a, unsigned b) {
  return (unsigned)((unsigned long long)a * b >> 32);
}
SIMT_FN long long __mul64hi(long long a, long long b) { return (long long)((__int128)a * b >> 64); }
SIMT_FN unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}
SIMT_FN int __mul24(int a, int b) { return (int)((unsigned)(a << 8 >> 8) * (unsigned)(b << 8 >> 8)); }
SIMT_FN unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffff) * (b & 0xffffff); }
SIMT_FN unsigned __usad(unsigned a, unsigned b, unsigned c) { return (a > b ? a - b : b - a) + c; }
SIMT_FN unsigned __sad(int a, int b, unsigned c) {
  return (a > b ? (unsigned)a - (unsigned)b : (unsigned)b - (unsigned)a) + c;
}
SIMT_FN int __hadd(int a, int b) { return (int)(((long long)a + b) >> 1); }
SIMT_FN int __rhadd(int a, int b) { return (int)(((long long)a + b + 1) >> 1); }
SIMT_FN unsigned __uhadd(unsigned a, unsigned b) {
  return (unsigned)(((unsigned long long)a + b) >> 1);
}
SIMT_FN unsigned __urhadd(unsigned a, unsigned b) {
  return (unsigned)(((unsigned long long)a + b + 1) >> 1);
}

// Dot products of packed integers.
template <class A, class B, class Sum> SIMT_FN Sum simt_dot(unsigned a, unsigned b, Sum sum) {
  for (unsigned i = 0; i < 4 / sizeof(A); i++)
    sum += (Sum)(A)(a >> (8 * sizeof(A) * i)) * (Sum)(B)(b >> (8 * sizeof(A) * i));
  return sum;
}
SIMT_FN int __dp4a(int a, int b, int c) {
  return simt_dot<signed char, signed char>((unsigned)a, (unsigned)b, c);
}
SIMT_FN unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
  return simt_dot<unsigned char, unsigned char>(a, b, c);
}
SIMT_FN int __dp4a(char4 a, char4 b, int c) {
  return c + a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
}
SIMT_FN int __dp2a_lo(int a, int b, int c) {
  return c + (short)a * (signed char)b + (a >> 16) * (signed char)(b >> 8);
}
SIMT_FN int __dp2a_hi(int a, int b, int c) { return __dp2a_lo(a, b >> 16, c); }

// Four bytes or two halves at a time.
#define SIMT_PACKED(name, part, bits, expression)                        \
  SIMT_FN unsigned name(unsigned a, unsigned b) {                        \
    unsigned out = 0;                                                    \
    for (unsigned i = 0; i < 32; i += bits) {                            \
      part x = (part)(a >> i), y = (part)(b >> i);                       \
      out |= ((unsigned)(expression) & (unsigned)((1ull << bits) - 1)) << i; \
    }                                                                    \
    return out;                                                          \
  }
SIMT_PACKED(__vadd4, uint8_t, 8, x + y)
SIMT_PACKED(__vsub4, uint8_t, 8, x - y)
SIMT_PACKED(__vmaxs4, int8_t, 8, x > y ? x : y)
SIMT_PACKED(__vmins4, int8_t, 8, x < y ? x : y)
SIMT_PACKED(__vmaxu4, uint8_t, 8, x > y ? x : y)
SIMT_PACKED(__vminu4, uint8_t, 8, x < y ? x : y)
SIMT_PACKED(__vabsdiffu4, uint8_t, 8, x > y ? x - y : y - x)
SIMT_PACKED(__vabsdiffs4, int8_t, 8, x > y ? x - y : y - x)
SIMT_PACKED(__vcmpeq4, uint8_t, 8, x == y ? 255 : 0)
SIMT_PACKED(__vcmpne4, uint8_t, 8, x != y ? 255 : 0)
SIMT_PACKED(__vcmpgtu4, uint8_t, 8, x > y ? 255 : 0)
SIMT_PACKED(__vcmpltu4, uint8_t, 8, x < y ? 255 : 0)
SIMT_PACKED(__vsubss4, int8_t, 8, x - y > 127 ? 127 : x - y < -128 ? -128 : x - y)
SIMT_PACKED(__vaddss4, int8_t, 8, x + y > 127 ? 127 : x + y < -128 ? -128 : x + y)
SIMT_PACKED(__vadd2, uint16_t, 16, x + y)
SIMT_PACKED(__vsub2, uint16_t, 16, x - y)
SIMT_PACKED(__vmaxs2, int16_t, 16, x > y ? x : y)
SIMT_PACKED(__vmins2, int16_t, 16, x < y ? x : y)
SIMT_PACKED(__vmaxu2, uint16_t, 16, x > y ? x : y)
SIMT_PACKED(__vminu2, uint16_t, 16, x < y ? x : y)
#undef SIMT_PACKED

// Bit casts.
#define SIMT_CAST(name, To, From)                    \
  SIMT_FN To name(From from) {                       \
    To to;                                           \
    __builtin_memcpy(&to, &from, sizeof to);         \
    return to;                                       \
  }
SIMT_CAST(__float_as_int, int, float)
SIMT_CAST(__float_as_uint, unsigned, float)
SIMT_CAST(__int_as_float, float, int)
SIMT_CAST(__uint_as_float, float, unsigned)
SIMT_CAST(__double_as_longlong, long long, double)
SIMT_CAST(__longlong_as_double, double, long long)
#undef SIMT_CAST
SIMT_FN int __double2hiint(double x) { return (int)(__double_as_longlong(x) >> 32); }
SIMT_FN int __double2loint(double x) { return (int)__double_as_longlong(x); }
SIMT_FN double __hiloint2double(int hi, int lo) {
  return __longlong_as_double((long long)hi << 32 | (unsigned)lo);
}

// Conversions saturate, and NaN becomes 0 (the top bit alone for 64-bit results), as on the device.
template <class To, class From> SIMT_FN To simt_saturate(From x) {
  constexpr To low = (To)((To)-1 < 0 ? (To)1 << (8 * sizeof(To) - 1) : 0), high = (To)~low;
  if (x != x) return sizeof(To) == 8 ? (To)((To)1 << (8 * sizeof(To) - 1)) : 0;
  if (x <= (From)low) return low;
  if (x >= (From)high) return high;
  return (To)x;
}
#define SIMT_CONVERT(from, to, From, To)                                                  \
  SIMT_FN To __##from##2##to##_rn(From x) { return simt_saturate<To>(__builtin_rint(x)); }  \
  SIMT_FN To __##from##2##to##_rz(From x) { return simt_saturate<To>(__builtin_trunc(x)); } \
  SIMT_FN To __##from##2##to##_rd(From x) { return simt_saturate<To>(__builtin_floor(x)); } \
  SIMT_FN To __##from##2##to##_ru(From x) { return simt_saturate<To>(__builtin_ceil(x)); }
SIMT_CONVERT(float, int, float, int)
SIMT_CONVERT(float, uint, float, unsigned)
SIMT_CONVERT(float, ll, float, long long)
SIMT_CONVERT(float, ull, float, unsigned long long)
SIMT_CONVERT(double, int, double, int)
SIMT_CONVERT(double, uint, double, unsigned)
SIMT_CONVERT(double, ll, double, long long)
SIMT_CONVERT(double, ull, double, unsigned long long)
#undef SIMT_CONVERT

// Conversions to floating point: the nearest, then a step where the direction (0 nearest, 1 up,
// -1 down, 2 to zero) wants another.
template <class To, class From> SIMT_FN To simt_round(From x, int direction) {
  To near = (To)x;
  if (direction == 0) return near;
  long double wide = (long double)x, got = (long double)near;
  bool go_down = got > wide && (direction == -1 || (direction == 2 && wide > 0));
  bool go_up = got < wide && (direction == 1 || (direction == 2 && wide < 0));
  if (sizeof(To) == 4) {
    if (go_down) return (To)__builtin_nextafterf((float)near, -__builtin_inff());
    if (go_up) return (To)__builtin_nextafterf((float)near, __builtin_inff());
  } else {
    if (go_down) return (To)__builtin_nextafter((double)near, -__builtin_inf());
    if (go_up) return (To)__builtin_nextafter((double)near, __builtin_inf());
  }
  return near;
}
#define SIMT_CONVERT(name, From, To)                                   \
  SIMT_FN To name##_rn(From x) { return (To)x; }                       \
  SIMT_FN To name##_rz(From x) { return simt_round<To>(x, 2); }        \
  SIMT_FN To name##_rd(From x) { return simt_round<To>(x, -1); }       \
  SIMT_FN To name##_ru(From x) { return simt_round<To>(x, 1); }
SIMT_CONVERT(__int2float, int, float)
SIMT_CONVERT(__uint2float, unsigned, float)
SIMT_CONVERT(__ll2float, long long, float)
SIMT_CONVERT(__ull2float, unsigned long long, float)
SIMT_CONVERT(__ll2double, long long, double)
SIMT_CONVERT(__ull2double, unsigned long long, double)
SIMT_CONVERT(__double2float, double, float)
#undef SIMT_CONVERT
SIMT_FN double __int2double_rn(int x) { return x; }
SIMT_FN double __uint2double_rn(unsigned x) { return x; }
}
