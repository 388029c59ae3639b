// Mathematical functions. The host's library computes them, at least as exactly as the device.
#pragma once
#include <math.h>
#include <stdlib.h>

#include <cmath>

#include "core.h"
#include "integer.h"

extern "C++" {
using std::abs;
using std::acos;
using std::acosh;
using std::asin;
using std::asinh;
using std::atan;
using std::atan2;
using std::atanh;
using std::cbrt;
using std::ceil;
using std::copysign;
using std::cos;
using std::cosh;
using std::erf;
using std::erfc;
using std::exp;
using std::exp2;
using std::expm1;
using std::fabs;
using std::fdim;
using std::floor;
using std::fma;
using std::fmax;
using std::fmin;
using std::fmod;
using std::frexp;
using std::hypot;
using std::ilogb;
using std::isfinite;
using std::isinf;
using std::isnan;
using std::ldexp;
using std::lgamma;
using std::llrint;
using std::llround;
using std::log;
using std::log10;
using std::log1p;
using std::log2;
using std::logb;
using std::lrint;
using std::lround;
using std::modf;
using std::nearbyint;
using std::nextafter;
using std::pow;
using std::remainder;
using std::remquo;
using std::rint;
using std::round;
using std::scalbn;
using std::signbit;
using std::sin;
using std::sinh;
using std::sqrt;
using std::tan;
using std::tanh;
using std::tgamma;
using std::trunc;

// min and max for every pair of types that CUDA declares.
#define SIMT_MINMAX(R, A, B)                                                    \
  SIMT_FN constexpr R min(A a, B b) { return (R)a < (R)b ? (R)a : (R)b; }       \
  SIMT_FN constexpr R max(A a, B b) { return (R)a > (R)b ? (R)a : (R)b; }
SIMT_MINMAX(int, int, int)
SIMT_MINMAX(unsigned, unsigned, unsigned)
SIMT_MINMAX(unsigned, int, unsigned)
SIMT_MINMAX(unsigned, unsigned, int)
SIMT_MINMAX(long, long, long)
SIMT_MINMAX(unsigned long, unsigned long, unsigned long)
SIMT_MINMAX(unsigned long, long, unsigned long)
SIMT_MINMAX(unsigned long, unsigned long, long)
SIMT_MINMAX(long long, long long, long long)
SIMT_MINMAX(unsigned long long, unsigned long long, unsigned long long)
SIMT_MINMAX(unsigned long long, long long, unsigned long long)
SIMT_MINMAX(unsigned long long, unsigned long long, long long)
#undef SIMT_MINMAX
// Of a NaN and a number, the number.
#define SIMT_MINMAX(R, A, B)                                      \
  SIMT_FN R min(A a, B b) { return std::fmin((R)a, (R)b); }       \
  SIMT_FN R max(A a, B b) { return std::fmax((R)a, (R)b); }
SIMT_MINMAX(float, float, float)
SIMT_MINMAX(double, double, double)
SIMT_MINMAX(double, float, double)
SIMT_MINMAX(double, double, float)
#undef SIMT_MINMAX
SIMT_FN unsigned umin(unsigned a, unsigned b) { return min(a, b); }
SIMT_FN unsigned umax(unsigned a, unsigned b) { return max(a, b); }
SIMT_FN long long llmin(long long a, long long b) { return min(a, b); }
SIMT_FN long long llmax(long long a, long long b) { return max(a, b); }

namespace simt {
constexpr double kPi = 3.14159265358979323846;
// sin(pi x) and cos(pi x), reduced exactly.
SIMT_FN double sin_pi(double x) {
  double r = __builtin_fmod(x, 2.0);
  if (r > 1) r -= 2;
  if (r < -1) r += 2;
  if (r > 0.5) r = 1 - r;
  if (r < -0.5) r = -1 - r;
  return __builtin_sin(kPi * r);
}
SIMT_FN double cos_pi(double x) { return sin_pi(0.5 - __builtin_fabs(__builtin_fmod(x, 2.0))); }
// The root of erfc(y) = q (q in (0, 1]), by Newton's steps from a rough start.
SIMT_FN double inverse_erfc_small(double q) {
  if (q == 0) return __builtin_inf();
  double t = __builtin_sqrt(-2 * __builtin_log(q / 2));
  double y = 0.70711 * (t - (2.30753 + t * 0.27061) / (1 + t * (0.99229 + t * 0.04481)));
  for (int i = 0; i < 3; i++) {
    double err = __builtin_erfc(y) - q;
    y += err / (1.12837916709551257390 * __builtin_exp(-y * y) - y * err);
  }
  return y;
}
SIMT_FN double inverse_erfc(double q) {
  if (!(q >= 0 && q <= 2)) return __builtin_nan("");
  return q <= 1 ? inverse_erfc_small(q) : -inverse_erfc_small(2 - q);
}
SIMT_FN double inverse_erf(double p) {
  if (__builtin_fabs(p) < 0.25) {  // 1 - p would lose digits: Newton's steps on erf itself
    double y = p * 0.886226925452758;
    for (int i = 0; i < 4; i++)
      y -= (__builtin_erf(y) - p) / (1.12837916709551257390 * __builtin_exp(-y * y));
    return y;
  }
  return p > 0 ? inverse_erfc(1 - p) : -inverse_erfc(1 + p);
}
}  // namespace simt

#define SIMT_UNARY(name, expression)                                             \
  SIMT_FN double name(double x) { return expression; }                           \
  SIMT_FN float name##f(float v) { double x = v; return (float)(expression); }   \
  SIMT_FN float name(float v) { return name##f(v); }
SIMT_UNARY(rsqrt, 1.0 / __builtin_sqrt(x))
SIMT_UNARY(rcbrt, 1.0 / __builtin_cbrt(x))
SIMT_UNARY(sinpi, simt::sin_pi(x))
SIMT_UNARY(cospi, simt::cos_pi(x))
SIMT_UNARY(normcdf, 0.5 * __builtin_erfc(-0.70710678118654752440 * x))
SIMT_UNARY(erfinv, simt::inverse_erf(x))
SIMT_UNARY(erfcinv, simt::inverse_erfc(x))
SIMT_UNARY(normcdfinv, -1.41421356237309504880 * simt::inverse_erfc(2 * x))
SIMT_UNARY(erfcx, __builtin_exp(x * x) * __builtin_erfc(x))
#undef SIMT_UNARY

SIMT_FN void sincos(float x, float *s, float *c) { *s = ::sinf(x); *c = ::cosf(x); }
SIMT_FN void sincospi(double x, double *s, double *c) { *s = sinpi(x); *c = cospi(x); }
SIMT_FN void sincospif(float x, float *s, float *c) { *s = sinpif(x); *c = cospif(x); }
SIMT_FN double rhypot(double x, double y) { return 1 / __builtin_hypot(x, y); }
SIMT_FN float rhypotf(float x, float y) { return (float)rhypot((double)x, (double)y); }
SIMT_FN double norm3d(double x, double y, double z) { return __builtin_hypot(__builtin_hypot(x, y), z); }
SIMT_FN float norm3df(float x, float y, float z) { return (float)norm3d(x, y, z); }
SIMT_FN double norm4d(double x, double y, double z, double w) {
  return __builtin_hypot(norm3d(x, y, z), w);
}
SIMT_FN float norm4df(float x, float y, float z, float w) { return (float)norm4d(x, y, z, w); }
SIMT_FN double rnorm3d(double x, double y, double z) { return 1 / norm3d(x, y, z); }
SIMT_FN float rnorm3df(float x, float y, float z) { return (float)rnorm3d(x, y, z); }

// The fast versions are at least as exact here. (glibc has the names __expf and so on to itself.)
namespace simt {
SIMT_FN float fast_pow(float x, float y) { return ::powf(x, y); }
SIMT_FN void fast_sincos(float x, float *s, float *c) { *s = ::sinf(x); *c = ::cosf(x); }
}  // namespace simt
#define __expf(x) ::expf(x)
#define __exp10f(x) ::exp10f(x)
#define __logf(x) ::logf(x)
#define __log2f(x) ::log2f(x)
#define __log10f(x) ::log10f(x)
#define __sinf(x) ::sinf(x)
#define __cosf(x) ::cosf(x)
#define __tanf(x) ::tanf(x)
#define __tanhf(x) ::tanhf(x)
#define __powf(x, y) ::simt::fast_pow(x, y)
#define __sincosf(x, s, c) ::simt::fast_sincos(x, s, c)
SIMT_FN float __fdividef(float a, float b) { return a / b; }
SIMT_FN float fdividef(float a, float b) { return a / b; }
SIMT_FN float __saturatef(float x) { return x > 0 ? (x < 1 ? x : 1.f) : 0.f; }

// Arithmetic that may not be fused, by rounding direction.
namespace simt {
template <class T> SIMT_FN T opaque(T x) {
#if defined(__x86_64__)
  asm("" : "+x"(x));
#else
  asm("" : "+w"(x));
#endif
  return x;
}
// What rounding to nearest left over (its sign is enough) tells whether to step.
SIMT_FN float step(double exact, int direction) { return simt_round<float>(exact, direction); }
}  // namespace simt
#define SIMT_ROUNDED(sfx, direction)                                                              \
  SIMT_FN float __fadd##sfx(float a, float b) { return simt::step((double)a + b, direction); }    \
  SIMT_FN float __fsub##sfx(float a, float b) { return simt::step((double)a - b, direction); }    \
  SIMT_FN float __fmul##sfx(float a, float b) { return simt::step((double)a * b, direction); }    \
  SIMT_FN float __fdiv##sfx(float a, float b) { return simt::step((double)a / b, direction); }    \
  SIMT_FN float __frcp##sfx(float a) { return simt::step(1.0 / a, direction); }                   \
  SIMT_FN float __fsqrt##sfx(float a) { return simt::step(__builtin_sqrt((double)a), direction); }\
  SIMT_FN float __fmaf##sfx(float a, float b, float c) {                                          \
    return simt::step((double)a * b + c, direction);                                              \
  }
SIMT_ROUNDED(_rz, 2)
SIMT_ROUNDED(_ru, 1)
SIMT_ROUNDED(_rd, -1)
#undef SIMT_ROUNDED
// In double, what rounding to nearest left over is computed exactly; its sign says where to step.
namespace simt {
SIMT_FN double step(double near, double left_over, int direction) {
  bool go_up = left_over > 0 && (direction == 1 || (direction == 2 && near < 0));
  bool go_down = left_over < 0 && (direction == -1 || (direction == 2 && near > 0));
  return go_up     ? __builtin_nextafter(near, __builtin_inf())
         : go_down ? __builtin_nextafter(near, -__builtin_inf())
                   : near;
}
SIMT_FN double add_rounded(double a, double b, int direction) {
  double sum = opaque(a + b), part = opaque(sum - a);
  return step(sum, opaque(a - opaque(sum - part)) + opaque(b - part), direction);
}
SIMT_FN double multiply_rounded(double a, double b, int direction) {
  double product = opaque(a * b);
  return step(product, __builtin_fma(a, b, -product), direction);
}
SIMT_FN double divide_rounded(double a, double b, int direction) {
  double quotient = a / b, rest = __builtin_fma(-quotient, b, a);
  return step(quotient, b < 0 ? -rest : rest, direction);
}
SIMT_FN double root_rounded(double a, int direction) {
  double root = __builtin_sqrt(a);
  return step(root, __builtin_fma(-root, root, a), direction);
}
}  // namespace simt
#define SIMT_ROUNDED(sfx, direction)                                                              \
  SIMT_FN double __dadd##sfx(double a, double b) { return simt::add_rounded(a, b, direction); }   \
  SIMT_FN double __dsub##sfx(double a, double b) { return simt::add_rounded(a, -b, direction); }  \
  SIMT_FN double __dmul##sfx(double a, double b) { return simt::multiply_rounded(a, b, direction); } \
  SIMT_FN double __ddiv##sfx(double a, double b) { return simt::divide_rounded(a, b, direction); }\
  SIMT_FN double __drcp##sfx(double a) { return simt::divide_rounded(1, a, direction); }          \
  SIMT_FN double __dsqrt##sfx(double a) { return simt::root_rounded(a, direction); }
SIMT_ROUNDED(_rz, 2)
SIMT_ROUNDED(_ru, 1)
SIMT_ROUNDED(_rd, -1)
#undef SIMT_ROUNDED
SIMT_FN float __fadd_rn(float a, float b) { return simt::opaque(a + b); }
SIMT_FN float __fsub_rn(float a, float b) { return simt::opaque(a - b); }
SIMT_FN float __fmul_rn(float a, float b) { return simt::opaque(a * b); }
SIMT_FN float __fdiv_rn(float a, float b) { return a / b; }
SIMT_FN float __frcp_rn(float a) { return 1.f / a; }
SIMT_FN float __fsqrt_rn(float a) { return __builtin_sqrtf(a); }
SIMT_FN float __frsqrt_rn(float a) { return rsqrtf(a); }
SIMT_FN float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
SIMT_FN float __fmaf_ieee_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
SIMT_FN double __dadd_rn(double a, double b) { return simt::opaque(a + b); }
SIMT_FN double __dsub_rn(double a, double b) { return simt::opaque(a - b); }
SIMT_FN double __dmul_rn(double a, double b) { return simt::opaque(a * b); }
SIMT_FN double __ddiv_rn(double a, double b) { return a / b; }
SIMT_FN double __drcp_rn(double a) { return 1.0 / a; }
SIMT_FN double __dsqrt_rn(double a) { return __builtin_sqrt(a); }
SIMT_FN double __fma_rn(double a, double b, double c) { return __builtin_fma(a, b, c); }
}
