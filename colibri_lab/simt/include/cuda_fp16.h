// half and half2.
#pragma once
#include "cuda_runtime.h"
#include "simt/small_convert.h"

extern "C++" {
SIMT_SMALL_TYPE(__half, __half_raw, simt::half_bits, simt::half_value)
SIMT_SMALL_PAIR(__half, __half2)
SIMT_SMALL_MATH(__half, __half2)
SIMT_SMALL_CONVERT(__half, __half2, __half_raw, half, simt::half_bits_any)
SIMT_FN __half2 __halves2half2(__half a, __half b) { return __half2(a, b); }
SIMT_FN __half2 make_half2(__half a, __half b) { return __half2(a, b); }
typedef __half half;
typedef __half2 half2;
typedef __half nv_half;
typedef __half2 nv_half2;
}
#define CUDART_INF_FP16 __ushort_as_half((unsigned short)0x7c00u)
#define CUDART_NAN_FP16 __ushort_as_half((unsigned short)0x7fffu)
#define CUDART_MAX_NORMAL_FP16 __ushort_as_half((unsigned short)0x7bffu)
#define CUDART_ONE_FP16 __ushort_as_half((unsigned short)0x3c00u)
#define CUDART_ZERO_FP16 __ushort_as_half((unsigned short)0x0000u)
