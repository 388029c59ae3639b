#include <assert.h>
#include <stdio.h>
extern "C" {
__device__ int deeper(int n) { volatile char room[200]; room[n % 200] = 1; return deeper(n + 1) + room[0]; }

__global__ void bad_store(int *p, int who) {
  if (threadIdx.x == who && blockIdx.x == 2)
    p[1ll << 40] = 1;  //! store
}
__global__ void bad_copy(char *p) {
  memcpy(p, (const char *)16, 3000 + p[0]);  //! copy
}
__global__ void divide(int *p) { p[0] = 7 / p[0]; }
__global__ void endless_recursion(int *p) { p[0] = deeper(0); }
__global__ void asserted(int *p) { assert(threadIdx.x != 3); p[threadIdx.x] = 1; }
__global__ void trapped(int *p) { if (threadIdx.x == 5) __trap(); p[threadIdx.x] = 1; }
__global__ void divergent(int *p) {
  if (threadIdx.x < 40) {
    __syncthreads();  //! barrier
  } else {
    __shfl_sync(0xffffffffu, p[0], 0);  //! shuffle
  }
}
__global__ void wrong_mask(int *p) { p[threadIdx.x] = __shfl_sync(0xffffu, threadIdx.x, 0); }
__global__ void forever(volatile int *p) { while (p[0] == 0) {} }
__global__ void forever_at_barriers(volatile int *p) { while (p[0] == 0) __syncthreads(); }
__global__ void flag(volatile int *p) {
  if (threadIdx.x == 0) { while (p[0] == 0) {} p[1] = 2; }
  if (threadIdx.x == 70) p[0] = 1;
}
__global__ void spin_lock(int *lock, int *total) {
  while (atomicExch(lock, 1) == 1) {}
  total[0]++;
  __threadfence();
  atomicExch(lock, 0);
}
__global__ void printing(int n) {
  if (threadIdx.x < n) printf("block %d thread %d %s %5.2f%%\n", blockIdx.x, threadIdx.x, "says", 1.5);
}
__global__ void clocks(long long *out) {
  long long begin = clock64();
  __syncthreads();
  out[threadIdx.x] = clock64() - begin;
}
__global__ void ptx(int *p) { asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(p[0]) : "l"(p)); }
__global__ void stale(unsigned *out) { __shared__ unsigned s[64]; out[threadIdx.x] = s[threadIdx.x]; }
__global__ void square(float *x) { x[blockIdx.x * blockDim.x + threadIdx.x] *= x[blockIdx.x * blockDim.x + threadIdx.x]; }
}
extern "C" __global__ void meet_all_blocks(int *count, int *out) {
  if (threadIdx.x == 0) {
    atomicAdd(count, 1);
    while (atomicAdd(count, 0) < gridDim.x) {}
  }
  __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = *count;
}
