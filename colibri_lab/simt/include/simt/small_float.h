// Bits of half and bfloat16, and what both types have in common, as macros over the type's name.
// Arithmetic is done in float and rounded once (in double where float would round twice).
#pragma once
#include "math.h"
#include "atomics.h"

extern "C++" {
namespace simt {

enum Rounding { NEAREST = 0, UP = 1, DOWN = -1, TO_ZERO = 2 };

// Rounds the magnitude `bits` of a float, cut by `drop` bits, away from zero or not.
SIMT_FN uint32_t rounds_up(uint32_t kept, uint32_t rest, uint32_t half, bool is_negative, Rounding r) {
  if (r == NEAREST) return rest > half || (rest == half && (kept & 1));
  if (r == TO_ZERO || rest == 0) return 0;
  return (r == UP) != is_negative;
}

SIMT_FN uint16_t half_bits_any(float value, Rounding r) {
  uint32_t bits = bit_cast<uint32_t>(value), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7fff;
  if (magnitude == 0x7f800000u) return (uint16_t)(sign | 0x7c00u);
  bool to_infinity = r == NEAREST || (r == UP && !sign) || (r == DOWN && sign);
  if (magnitude >= 0x47800000u) return (uint16_t)(sign | (to_infinity ? 0x7c00u : 0x7bffu));
  int exponent = (int)(magnitude >> 23) - 112;  // of the half
  uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u, drop = 13;
  if (exponent <= 0) drop = exponent < -11 ? 25 : (uint32_t)(14 - exponent), exponent = 0;
  if (magnitude < 0x00800000u) mantissa = magnitude ? 1u : 0u, drop = 24;
  uint32_t kept = mantissa >> drop, rest = mantissa & ((1u << drop) - 1);
  uint32_t base = exponent > 0 ? (uint32_t)(exponent - 1) << 10 : 0;
  return (uint16_t)(sign | (base + kept + rounds_up(kept, rest, 1u << (drop - 1), sign != 0, r)));
}
SIMT_FN float half_value_any(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = h >> 10 & 31u, mantissa = h & 0x3ffu;
  if (exponent == 31) return bit_cast<float>(sign | 0x7f800000u | mantissa << 13);
  if (exponent == 0) {
    float value = (float)mantissa * 5.9604644775390625e-8f;
    return sign ? -value : value;
  }
  return bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}

#if defined(__F16C__)
typedef float V4 __attribute__((vector_size(16)));
typedef short V8 __attribute__((vector_size(16)));
SIMT_FN uint16_t half_bits(float value) {
  return (uint16_t)__builtin_ia32_vcvtps2ph(V4{value, 0, 0, 0}, 0)[0];
}
SIMT_FN float half_value(uint16_t h) {
  return __builtin_ia32_vcvtph2ps(V8{(short)h, 0, 0, 0, 0, 0, 0, 0})[0];
}
#elif defined(__aarch64__)
SIMT_FN uint16_t half_bits(float value) { return bit_cast<uint16_t>((__fp16)value); }
SIMT_FN float half_value(uint16_t h) { return (float)bit_cast<__fp16>(h); }
#else
SIMT_FN uint16_t half_bits(float value) { return half_bits_any(value, NEAREST); }
SIMT_FN float half_value(uint16_t h) { return half_value_any(h); }
#endif

SIMT_FN uint16_t bfloat_bits_any(float value, Rounding r) {
  uint32_t bits = bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
  uint32_t kept = bits >> 16;
  return (uint16_t)(kept + rounds_up(kept, bits & 0xffffu, 0x8000u, bits >> 31, r));
}
SIMT_FN uint16_t bfloat_bits(float value) { return bfloat_bits_any(value, NEAREST); }
SIMT_FN float bfloat_value(uint16_t b) { return bit_cast<float>((uint32_t)b << 16); }

// A double made float so that rounding it again cannot go wrong: odd where it was inexact.
SIMT_FN float to_odd(double exact) {
  float near = (float)exact;
  if ((double)near == exact || near != near) return near;
  uint32_t bits = bit_cast<uint32_t>(near);
  if (bits & 1) return near;
  bool is_large = __builtin_fabs((double)near) > __builtin_fabs(exact);
  return bit_cast<float>(is_large ? bits - 1 : bits + 1);
}
}  // namespace simt

// The type T of two bytes: bits `to_bits(float)`, value `to_value(bits)`.
#define SIMT_SMALL_TYPE(T, RAW, to_bits, to_value)                                         \
  struct RAW { unsigned short x; };                                                        \
  struct alignas(2) T {                                                                    \
    unsigned short __x;                                                                    \
    T() = default;                                                                         \
    constexpr T(const RAW &raw) : __x(raw.x) {}                                            \
    T(float v) : __x(to_bits(v)) {}                                                        \
    T(double v) : __x(to_bits(simt::to_odd(v))) {}                                         \
    T(short v) : T((float)v) {}                                                            \
    T(unsigned short v) : T((float)v) {}                                                   \
    T(int v) : T((double)v) {}                                                             \
    T(unsigned v) : T((double)v) {}                                                        \
    T(long v) : T((double)v) {}                                                            \
    T(unsigned long v) : T((double)v) {}                                                   \
    T(long long v) : T((double)v) {}                                                       \
    T(unsigned long long v) : T((double)v) {}                                              \
    operator float() const { return to_value(__x); }                                       \
    operator RAW() const { return RAW{__x}; }                                              \
    operator bool() const { return (__x & 0x7fff) != 0; }                                  \
    operator signed char() const { return (signed char)to_value(__x); }                    \
    operator unsigned char() const { return (unsigned char)to_value(__x); }                \
    operator char() const { return (char)to_value(__x); }                                  \
    operator short() const { return (short)to_value(__x); }                                \
    operator unsigned short() const { return (unsigned short)to_value(__x); }              \
    operator int() const { return (int)to_value(__x); }                                    \
    operator unsigned() const { return (unsigned)to_value(__x); }                          \
    operator long() const { return (long)to_value(__x); }                                  \
    operator unsigned long() const { return (unsigned long)to_value(__x); }                \
    operator long long() const { return (long long)to_value(__x); }                        \
    operator unsigned long long() const { return (unsigned long long)to_value(__x); }      \
    T &operator=(float v) { __x = to_bits(v); return *this; }                              \
    T &operator=(double v) { return *this = T(v); }                                        \
    T &operator=(int v) { return *this = T(v); }                                           \
    T &operator=(const RAW &raw) { __x = raw.x; return *this; }                            \
  };                                                                                       \
  SIMT_SMALL_OPERATOR(T, +, __hadd)                                                        \
  SIMT_SMALL_OPERATOR(T, -, __hsub)                                                        \
  SIMT_SMALL_OPERATOR(T, *, __hmul)                                                        \
  SIMT_SMALL_OPERATOR(T, /, __hdiv)                                                        \
  SIMT_FN T operator+(const T &a) { return a; }                                            \
  SIMT_FN T __hneg(T a) { a.__x ^= 0x8000; return a; }                                     \
  SIMT_FN T operator-(const T &a) { return __hneg(a); }                                    \
  SIMT_FN T __habs(T a) { a.__x &= 0x7fff; return a; }                                     \
  SIMT_FN T &operator++(T &a) { return a = a + T(1.f); }                                   \
  SIMT_FN T &operator--(T &a) { return a = a - T(1.f); }                                   \
  SIMT_FN T __hadd_rn(T a, T b) { return __hadd(a, b); }                                   \
  SIMT_FN T __hsub_rn(T a, T b) { return __hsub(a, b); }                                   \
  SIMT_FN T __hmul_rn(T a, T b) { return __hmul(a, b); }                                   \
  SIMT_FN T __hfma(T a, T b, T c) {                                                        \
    return T(simt::to_odd((double)(float)a * (float)b + (float)c));                        \
  }                                                                                        \
  SIMT_FN T __hadd_sat(T a, T b) { return T(__saturatef((float)a + (float)b)); }           \
  SIMT_FN T __hsub_sat(T a, T b) { return T(__saturatef((float)a - (float)b)); }           \
  SIMT_FN T __hmul_sat(T a, T b) { return T(__saturatef((float)a * (float)b)); }           \
  SIMT_FN T __hfma_sat(T a, T b, T c) { return T(__saturatef((float)__hfma(a, b, c))); }   \
  SIMT_FN T __hfma_relu(T a, T b, T c) {                                                   \
    T r = __hfma(a, b, c);                                                                 \
    return (float)r < 0 ? T(0.f) : r;                                                      \
  }                                                                                        \
  SIMT_FN bool __hisnan(T a) { return (float)a != (float)a; }                              \
  SIMT_FN int __hisinf(T a) {                                                              \
    return __builtin_isinf((float)a) ? ((float)a > 0 ? 1 : -1) : 0;                        \
  }                                                                                        \
  SIMT_FN T __hmax(T a, T b) { return T(fmaxf(a, b)); }                                    \
  SIMT_FN T __hmin(T a, T b) { return T(fminf(a, b)); }                                    \
  SIMT_FN T __hmax_nan(T a, T b) { return __hisnan(a) ? a : __hisnan(b) ? b : __hmax(a, b); } \
  SIMT_FN T __hmin_nan(T a, T b) { return __hisnan(a) ? a : __hisnan(b) ? b : __hmin(a, b); } \
  SIMT_SMALL_COMPARE(T, ==, eq)                                                            \
  SIMT_SMALL_COMPARE(T, <, lt)                                                             \
  SIMT_SMALL_COMPARE(T, <=, le)                                                            \
  SIMT_SMALL_COMPARE(T, >, gt)                                                             \
  SIMT_SMALL_COMPARE(T, >=, ge)                                                            \
  SIMT_FN bool operator!=(const T &a, const T &b) { return (float)a != (float)b; }         \
  SIMT_FN bool __hne(T a, T b) { return (float)a < (float)b || (float)a > (float)b; }      \
  SIMT_FN bool __hneu(T a, T b) { return (float)a != (float)b; }                           \
  SIMT_FN T atomicAdd(T *p, T v) { return simt::update(p, [=](T o) { return o + v; }); }

#define SIMT_SMALL_OPERATOR(T, op, name)                                       \
  SIMT_FN T name(T a, T b) { return T((float)a op (float)b); }                 \
  SIMT_FN T operator op(const T &a, const T &b) { return name(a, b); }         \
  SIMT_FN T &operator op##=(T &a, const T &b) { return a = name(a, b); }
#define SIMT_SMALL_COMPARE(T, op, name)                                        \
  SIMT_FN bool operator op(const T &a, const T &b) { return (float)a op (float)b; } \
  SIMT_FN bool __h##name(T a, T b) { return (float)a op (float)b; }            \
  SIMT_FN bool __h##name##u(T a, T b) {                                        \
    return __hisnan(a) || __hisnan(b) || (float)a op (float)b;                 \
  }

// Two of them.
#define SIMT_SMALL_PAIR(T, T2)                                                             \
  struct alignas(4) T2 {                                                                   \
    T x, y;                                                                                \
    T2() = default;                                                                        \
    constexpr T2(const T &a, const T &b) : x(a), y(b) {}                                   \
  };                                                                                       \
  SIMT_PAIR_OPERATOR(T2, +, __hadd)                                                        \
  SIMT_PAIR_OPERATOR(T2, -, __hsub)                                                        \
  SIMT_PAIR_OPERATOR(T2, *, __hmul)                                                        \
  SIMT_PAIR_NAME(T2, __hdiv)                                                               \
  SIMT_FN T2 __h2div(T2 a, T2 b) { return __hdiv2(a, b); }                                 \
  SIMT_FN T2 operator/(const T2 &a, const T2 &b) { return __hdiv2(a, b); }                 \
  SIMT_FN T2 __hneg2(T2 a) { return T2(-a.x, -a.y); }                                      \
  SIMT_FN T2 operator-(const T2 &a) { return __hneg2(a); }                                 \
  SIMT_FN T2 __habs2(T2 a) { return T2(__habs(a.x), __habs(a.y)); }                        \
  SIMT_FN T2 __hfma2(T2 a, T2 b, T2 c) { return T2(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)); } \
  SIMT_FN T2 __hfma2_relu(T2 a, T2 b, T2 c) {                                              \
    return T2(__hfma_relu(a.x, b.x, c.x), __hfma_relu(a.y, b.y, c.y));                     \
  }                                                                                        \
  SIMT_PAIR_NAME(T2, __hmax)                                                               \
  SIMT_PAIR_NAME(T2, __hmin)                                                               \
  SIMT_PAIR_NAME(T2, __hmax_nan)                                                           \
  SIMT_PAIR_NAME(T2, __hmin_nan)                                                           \
  SIMT_PAIR_COMPARE(T, T2, eq)                                                             \
  SIMT_PAIR_COMPARE(T, T2, ne)                                                             \
  SIMT_PAIR_COMPARE(T, T2, lt)                                                             \
  SIMT_PAIR_COMPARE(T, T2, le)                                                             \
  SIMT_PAIR_COMPARE(T, T2, gt)                                                             \
  SIMT_PAIR_COMPARE(T, T2, ge)                                                             \
  SIMT_FN bool operator==(const T2 &a, const T2 &b) { return a.x == b.x && a.y == b.y; }   \
  SIMT_FN bool operator!=(const T2 &a, const T2 &b) { return !(a == b); }                  \
  SIMT_FN T2 atomicAdd(T2 *p, T2 v) { return simt::update_parts(p, v, T()); }

#define SIMT_PAIR_NAME(T2, name) \
  SIMT_FN T2 name##2(T2 a, T2 b) { return T2(name(a.x, b.x), name(a.y, b.y)); }
#define SIMT_PAIR_OPERATOR(T2, op, name)                                      \
  SIMT_PAIR_NAME(T2, name)                                                    \
  SIMT_FN T2 name##2_rn(T2 a, T2 b) { return name##2(a, b); }                 \
  SIMT_FN T2 operator op(const T2 &a, const T2 &b) { return name##2(a, b); }  \
  SIMT_FN T2 &operator op##=(T2 &a, const T2 &b) { return a = name##2(a, b); }
#define SIMT_PAIR_COMPARE(T, T2, name)                                            \
  SIMT_FN T2 __h##name##2(T2 a, T2 b) {                                           \
    return T2(T(__h##name(a.x, b.x) ? 1.f : 0.f), T(__h##name(a.y, b.y) ? 1.f : 0.f)); \
  }                                                                               \
  SIMT_FN bool __hb##name##2(T2 a, T2 b) { return __h##name(a.x, b.x) && __h##name(a.y, b.y); }

#define SIMT_SMALL_MATH(T, T2)            \
  SIMT_MATH(T, T2, exp, expf(v))          \
  SIMT_MATH(T, T2, exp2, exp2f(v))        \
  SIMT_MATH(T, T2, exp10, exp10f(v))      \
  SIMT_MATH(T, T2, log, logf(v))          \
  SIMT_MATH(T, T2, log2, log2f(v))        \
  SIMT_MATH(T, T2, log10, log10f(v))      \
  SIMT_MATH(T, T2, sqrt, sqrtf(v))        \
  SIMT_MATH(T, T2, rsqrt, rsqrtf(v))      \
  SIMT_MATH(T, T2, rcp, 1.f / v)          \
  SIMT_MATH(T, T2, sin, sinf(v))          \
  SIMT_MATH(T, T2, cos, cosf(v))          \
  SIMT_MATH(T, T2, tanh, tanhf(v))        \
  SIMT_MATH(T, T2, floor, floorf(v))      \
  SIMT_MATH(T, T2, ceil, ceilf(v))        \
  SIMT_MATH(T, T2, trunc, truncf(v))      \
  SIMT_MATH(T, T2, rint, rintf(v))
#define SIMT_MATH(T, T2, name, expression)                        \
  SIMT_FN T h##name(T a) { float v = a; return T(expression); }   \
  SIMT_FN T2 h2##name(T2 a) { return T2(h##name(a.x), h##name(a.y)); }
}
