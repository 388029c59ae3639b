#include <cuda_fp16.h>
#define KERNEL __global__ void
extern "C" {
extern "C" { __global__ void inner(int *o) { o[0] = 1; } }
KERNEL by_macro(int *o) { o[0] = 2; }
}
extern "C" __global__ void single(int *o) { o[0] = 3; }
__global__ void mangled(int *o, float) { o[0] = 4; }
static __global__ void overloaded(int *o) { o[0] = 5; }
__global__ void overloaded(float *o) { o[0] = 6; }
namespace a { namespace b {
__global__ void deep(int *o);
}}
__global__ void a::b::deep(int *o) { o[0] = 7; }
namespace {
__global__ __launch_bounds__(64) void hidden(int *o) { o[0] = 8; }
}
template <typename T, int N, bool = true, typename... Rest>
__global__ void __launch_bounds__(N, 1) made(T *o, const T x, Rest... rest) {
  __shared__ T tile[N];
  tile[threadIdx.x] = x;
  __syncthreads();
  o[threadIdx.x] = tile[N - 1 - threadIdx.x] + sizeof...(rest);
}
template __global__ void made<int, 32>(int *, const int);
template __global__ void made<double, 64, false, int, float>(double *, const double, int, float);
template <typename T> __global__ void special(T *o) { o[0] = 1; }
template <> __global__ void special<float>(float *o) { o[0] = 9; }
template <class T> struct Box { T v; };
template <class T> __device__ T twice(T v) { return v + v; }
template <class F> __global__ void apply(F f, float *o) { o[threadIdx.x] = f(o[threadIdx.x]); }
void host_code(float *p) {
  auto f = [] __device__(float v) { return twice(v); };
  apply<<<dim3(1), 32, 0, 0>>>(f, p);
  special<int><<<1, 1>>>((int *)p);
}
__global__ void by_value(Box<double> box, char c, half h, double *o, dim3 d) {
  o[0] = box.v + c; o[1] = __half2float(h) + d.y;
}
namespace a { __device__ float table[3] = {1, 2, 3}; __constant__ int size; }
static __device__ int kept;
void more_host_code(float *p, int n) {
  dim3 gridDim(n, 2), blockDim(32);
  apply<<<gridDim, blockDim>>>(twice<float>, p);
}
void launches(float *p, dim3 gridDim, dim3 blockDim);
void launches(float *p, dim3 gridDim, dim3 blockDim) { apply<<<gridDim.x, blockDim>>>(twice<float>, p); }
extern "C" __global__ void after_host_code(int *o) { dim3 d = blockDim; o[0] = d.x + gridDim.x; }
template <typename T, T (*function)(T), int = 3>
__global__ void restricted(const T *__restrict__ in, T *__restrict__ const out) {
  out[threadIdx.x] = function(in[threadIdx.x]);
}
template __global__ void restricted<int, twice<int>>(const int *__restrict__, int *__restrict__ const);
