#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <mma.h>
using namespace nvcuda;

extern "C" {
__global__ void atomics(int *i, unsigned *u, unsigned long long *ull, float *f, double *d) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(i, t); atomicSub(i + 1, t); atomicMax(i + 2, t); atomicMin(i + 3, -t);
  atomicOr(u, 1u << (t & 31)); atomicAnd(u + 1, ~(1u << (t & 15))); atomicXor(u + 2, (unsigned)t);
  atomicInc(u + 3, 6u); atomicDec(u + 4, 6u);
  atomicAdd(ull, (unsigned long long)t << 20); atomicMax(ull + 1, (unsigned long long)t << 33);
  atomicAdd(f, 1.0f); atomicAdd(d, 0.5);
}
__global__ void swaps(unsigned short *h, int *i, unsigned long long *ull, float4 *wide, int *lock, int *total) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned short seen = *h, old;
  do { old = seen; seen = atomicCAS(h, old, (unsigned short)(old + 1)); } while (seen != old);
  int was = *i, now;
  do { now = was; was = atomicCAS(i, now, now * 3 + 1 & 0xffff); } while (was != now);
  atomicExch(ull, (unsigned long long)t + 1);
  float4 before = *wide, tried;
  do {
    tried = before;
    float4 next = make_float4(tried.x + 1, tried.y + 2, tried.z, tried.w - 1);
    before = atomicCAS(wide, tried, next);
  } while (before.x != tried.x);
  while (atomicCAS(lock, 0, 1) != 0) {}   // one lock for the whole grid
  *total = *total + 1;
  __threadfence();
  atomicExch(lock, 0);
}
__global__ void small_atomics(half *h, half2 *h2, __nv_bfloat16 *b) {
  atomicAdd(h, __float2half(1.0f));
  atomicAdd(h2, __floats2half2_rn(1.0f, 2.0f));
  atomicAdd(b, __float2bfloat16(1.0f));
}
__global__ void integers(const unsigned *a, const unsigned *b, unsigned *out) {
  unsigned x = a[threadIdx.x], y = b[threadIdx.x], *o = out + threadIdx.x * 10;
  o[0] = __popc(x); o[1] = __clz(x); o[2] = __ffs(x); o[3] = __brev(x); o[4] = __umulhi(x, y);
  o[5] = __byte_perm(x, y, 0x3715); o[6] = __funnelshift_l(x, y, 9); o[7] = __dp4a((int)x, (int)y, 5);
  o[8] = min(x, y); o[9] = (unsigned)__mulhi((int)x, (int)y);
}
__global__ void reals(const float *x, float *out) {
  float v = x[threadIdx.x], *o = out + threadIdx.x * 12;
  o[0] = __expf(v); o[1] = rsqrtf(fabsf(v)); o[2] = __fdividef(v, 3.f); o[3] = erff(v);
  o[4] = normcdff(v); o[5] = sinpif(v); o[6] = exp10f(v); o[7] = erfinvf(v / 20);
  o[8] = __saturatef(v); o[9] = tanhf(v); o[10] = __powf(fabsf(v), 1.5f); o[11] = cbrtf(v);
}
__global__ void rounded(const float *a, const float *b, float *out, int *ints) {
  float x = a[threadIdx.x], y = b[threadIdx.x], *o = out + threadIdx.x * 6;
  o[0] = __fadd_rn(x, y); o[1] = __fadd_ru(x, y); o[2] = __fadd_rd(x, y); o[3] = __fmul_rz(x, y);
  o[4] = __fdiv_ru(x, y); o[5] = fmaf(x, y, x);
  int *i = ints + threadIdx.x * 4;
  i[0] = __float2int_rn(x); i[1] = __float2int_rz(x); i[2] = __float2int_ru(x); i[3] = __float2int_rd(x * 1e10f);
}
__global__ void fused(const float *a, float *out) { out[threadIdx.x] = a[0] * a[0] - a[1]; }
__global__ void halves(const half *a, const half *b, half *out, int n) {
  int t = threadIdx.x;
  half x = a[t], y = b[t];
  out[t] = x + y; out[n + t] = x * y; out[2 * n + t] = x / y; out[3 * n + t] = __hfma(x, y, x);
  out[4 * n + t] = hexp(x); out[5 * n + t] = __hmax(x, y);
  half2 p = __halves2half2(x, y), q = __hmul2(p, __float2half2_rn(2.f));
  out[6 * n + t] = __low2half(q) - __high2half(q);
  out[7 * n + t] = __shfl_xor_sync(0xffffffffu, x, 1);
}
__global__ void bfloats(const __nv_bfloat16 *a, const __nv_bfloat16 *b, __nv_bfloat16 *out, int n) {
  int t = threadIdx.x;
  __nv_bfloat16 x = a[t], y = b[t];
  out[t] = x + y; out[n + t] = x * y; out[2 * n + t] = x / y; out[3 * n + t] = x - y;
  float2 f = __bfloat1622float2(__halves2bfloat162(x, y));
  out[4 * n + t] = __float2bfloat16(f.x * f.y + f.x);
  out[5 * n + t] = __hlt(x, y) ? x : y;
}
__global__ void to_small(const float *x, half *h, __nv_bfloat16 *b, half *down, half *up) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  h[t] = __float2half(x[t]); b[t] = __float2bfloat16(x[t]);
  down[t] = __float2half_rd(x[t]); up[t] = __float2half_ru(x[t]);
}
__global__ void tensor(const half *a, const half *b, float *c) {
  __shared__ half tile[256];
  for (int i = threadIdx.x; i < 256; i += 32) tile[i] = a[i];
  __syncthreads();
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
  wmma::fill_fragment(fc, 1.0f);
  wmma::load_matrix_sync(fa, tile, 16);
  wmma::load_matrix_sync(fb, b, 16);
  wmma::mma_sync(fc, fa, fb, fc);
  wmma::mma_sync(fc, fa, fb, fc);
  for (int i = 0; i < fc.num_elements; i++) fc.x[i] *= 2.0f;
  wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
}
__global__ void vectors(const float4 *in, float4 *out, uchar4 *bytes) {
  float4 v = in[threadIdx.x];
  out[threadIdx.x] = make_float4(v.w, v.z, v.y, v.x);
  bytes[threadIdx.x] = make_uchar4((unsigned char)v.x, 1, 2, 255);
}
}
extern "C" __global__ void rounded_doubles(const double *a, const double *b, double *out) {
  double x = a[threadIdx.x], y = b[threadIdx.x], *o = out + threadIdx.x * 8;
  o[0] = __dadd_ru(x, y); o[1] = __dadd_rd(x, y); o[2] = __dmul_ru(x, y); o[3] = __dmul_rz(x, y);
  o[4] = __ddiv_rd(x, y); o[5] = __ddiv_ru(x, y); o[6] = __dsqrt_ru(fabs(x)); o[7] = __dsqrt_rd(fabs(x));
}
