// Complex numbers as pairs.
#pragma once
#include "cuda_runtime.h"

extern "C++" {
typedef float2 cuFloatComplex;
typedef double2 cuDoubleComplex;
typedef cuFloatComplex cuComplex;
#define SIMT_COMPLEX(Z, T, f, real, imag, suffix)                                             \
  SIMT_FN Z make_##suffix(T x, T y) { return {x, y}; }                                        \
  SIMT_FN T real(Z z) { return z.x; }                                                         \
  SIMT_FN T imag(Z z) { return z.y; }                                                         \
  SIMT_FN Z cuConj##f(Z z) { return {z.x, -z.y}; }                                            \
  SIMT_FN Z cuCadd##f(Z a, Z b) { return {a.x + b.x, a.y + b.y}; }                          \
  SIMT_FN Z cuCsub##f(Z a, Z b) { return {a.x - b.x, a.y - b.y}; }                          \
  SIMT_FN Z cuCmul##f(Z a, Z b) { return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x}; }  \
  SIMT_FN T cuCabs##f(Z z) { return (T)__builtin_hypot(z.x, z.y); }                         \
  SIMT_FN Z cuCdiv##f(Z a, Z b) {                                                           \
    T n = b.x * b.x + b.y * b.y;                                                              \
    return {(a.x * b.x + a.y * b.y) / n, (a.y * b.x - a.x * b.y) / n};                        \
  }
SIMT_COMPLEX(cuFloatComplex, float, f, cuCrealf, cuCimagf, cuFloatComplex)
SIMT_COMPLEX(cuDoubleComplex, double, , cuCreal, cuCimag, cuDoubleComplex)
#undef SIMT_COMPLEX
SIMT_FN cuComplex make_cuComplex(float x, float y) { return {x, y}; }
}
