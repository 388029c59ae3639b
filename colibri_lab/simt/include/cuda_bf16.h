// bfloat16, alone and in pairs.
#pragma once
#include "cuda_runtime.h"
#include "simt/small_convert.h"

extern "C++" {
SIMT_SMALL_TYPE(__nv_bfloat16, __nv_bfloat16_raw, simt::bfloat_bits, simt::bfloat_value)
SIMT_SMALL_PAIR(__nv_bfloat16, __nv_bfloat162)
SIMT_SMALL_MATH(__nv_bfloat16, __nv_bfloat162)
SIMT_SMALL_CONVERT(__nv_bfloat16, __nv_bfloat162, __nv_bfloat16_raw, bfloat16, simt::bfloat_bits_any)
SIMT_FN __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) {
  return __nv_bfloat162(a, b);
}
SIMT_FN __nv_bfloat162 make_bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) {
  return __nv_bfloat162(a, b);
}
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;
}
#define CUDART_INF_BF16 __ushort_as_bfloat16((unsigned short)0x7f80u)
#define CUDART_NAN_BF16 __ushort_as_bfloat16((unsigned short)0x7fffu)
#define CUDART_ONE_BF16 __ushort_as_bfloat16((unsigned short)0x3f80u)
#define CUDART_ZERO_BF16 __ushort_as_bfloat16((unsigned short)0x0000u)
