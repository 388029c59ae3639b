#include <stdio.h>
extern "C" {
__constant__ float coefficients[4];
__device__ int counter = 5;
__device__ double big[1000];

__global__ void sgemm(const float *A, const float *B, float *C, int n) {
  __shared__ float As[16][16], Bs[16][16];
  int r = blockIdx.y * 16 + threadIdx.y, c = blockIdx.x * 16 + threadIdx.x;
  float acc = 0.f;
  for (int t = 0; t < n; t += 16) {
    As[threadIdx.y][threadIdx.x] = A[r * n + t + threadIdx.x];
    Bs[threadIdx.y][threadIdx.x] = B[(t + threadIdx.y) * n + c];
    __syncthreads();
    for (int k = 0; k < 16; k++) acc += As[threadIdx.y][k] * Bs[k][threadIdx.x];
    __syncthreads();
  }
  C[r * n + c] = acc;
}
__global__ void places(unsigned *out) {
  unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  out[block * blockDim.x * blockDim.y * blockDim.z + thread] = block << 16 | thread;
}
__global__ void row_max(const float *x, float *out, int n) {
  extern __shared__ float scratch[];
  float best = -INFINITY;
  for (int i = threadIdx.x; i < n; i += blockDim.x) best = fmaxf(best, x[blockIdx.x * n + i]);
  scratch[threadIdx.x] = best;
  __syncthreads();
  for (int d = blockDim.x / 2; d; d >>= 1) {
    if (threadIdx.x < d) scratch[threadIdx.x] = fmaxf(scratch[threadIdx.x], scratch[threadIdx.x + d]);
    __syncthreads();
  }
  if (!threadIdx.x) out[blockIdx.x] = scratch[0];
}
__global__ void polynomial(float *x) {
  float v = x[threadIdx.x];
  x[threadIdx.x] = ((coefficients[3] * v + coefficients[2]) * v + coefficients[1]) * v + coefficients[0];
  if (threadIdx.x == 0) { counter += 2; big[999] = 1.5; }
}
__global__ void early_exit(int *out, int n) {
  if (threadIdx.x >= n) return;
  __shared__ int total;
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  atomicAdd(&total, 1);
  __syncthreads();
  out[threadIdx.x] = total;
}
__global__ void barrier_votes(int *out, int limit) {
  int t = threadIdx.x;
  out[t * 3] = __syncthreads_count(t < limit);
  out[t * 3 + 1] = __syncthreads_and(t < limit);
  out[t * 3 + 2] = __syncthreads_or(t < limit);
}
__global__ void shapes_of_shared(int *out) {
  __shared__ struct { int a; double b; } pair;
  __shared__ int (*row)[4];
  __shared__ __align__(16) unsigned char raw[48];
  __shared__ volatile int one, two[2];
  __shared__ union { float f; unsigned u; } bits;
  __shared__ int grid[2][4];
  if (threadIdx.x == 0) {
    pair.a = 1; pair.b = 2; row = grid; one = 3; two[1] = 4; bits.f = 1.f;
    row[1][2] = 9;
    out[6] = (int)((size_t)raw % 16);
    out[7] = sizeof(raw);
  }
  __syncthreads();
  out[0] = pair.a; out[1] = (int)pair.b; out[2] = one; out[3] = two[1];
  out[4] = bits.u >> 23; out[5] = grid[1][2];
}
__global__ void recursion(int *out, int depth);
__device__ int depth_of(int n) { return n == 0 ? 0 : 1 + depth_of(n - 1); }
__global__ void recursion(int *out, int depth) { out[threadIdx.x] = depth_of(depth + threadIdx.x); }
__global__ void __launch_bounds__(128, 2) bounded(int *) {}
__global__ void nothing() {}
}
