// Declarations as people write them.
#include <cuda_fp16.h>
#define SHARED(type, name, n) __shared__ type name[n]
#define BOUNDS __launch_bounds__(64, 1)

extern __shared__ float everywhere[];
__shared__ int at_file_scope[8];

struct __align__(16) Pair {
  float a, b;
  __host__ __device__ Pair() = default;
  __host__ __device__ constexpr Pair(float x, float y) : a(x), b(y) {}
  __device__ __forceinline__ Pair operator+(const Pair &o) const { return Pair(a + o.a, b + o.b); }
  __device__ static float sum(Pair p) { return p.a + p.b; }
  static constexpr int kSize = 2;
};
typedef int (*Function)(int);
__device__ int twice(int v) { return 2 * v; }
__device__ int thrice(int v) { return 3 * v; }
__device__ Function table[2] = {twice, thrice};
__constant__ struct { int n; float scale; } config = {7, 0.5f};
__constant__ int one = 1, several[3] = {1, 2, 3};
__device__ float *where = nullptr, level{2.5f};
static __device__ __constant__ unsigned char bytes[4] = {1, 2, 3, 4};
__device__ const float fixed[2] = {1.5f, 2.5f};
template <int n> __device__ __noinline__ float added(const float (&v)[n]) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < n; ++i) sum += v[i];
  return sum;
}
template <typename T> struct Shared {
  static __device__ T *get() {
    __shared__ T mine[4];
    return mine;
  }
};

extern "C" {
void __global__ attribute_after_type(int *o) { o[0] = 1; }
__global__ static void BOUNDS bounded(int *o, int = 3, const float * = nullptr) { o[0] = blockDim.x; }
__global__ void everything(float *out) {
  static __shared__ float first[4], *pointer, second[2][2];
  SHARED(Pair, pairs, Pair::kSize);
  __shared__ half halves[4];
  __shared__ alignas(64) char aligned[3];
  const int t = threadIdx.x;
  if (t == 0) {
    __shared__ int inner;
    inner = 5;
    pairs[0] = Pair(1, 2) + Pair(3, 4);
    pointer = first;
    *pointer = 6;
    second[1][1] = 7;
    halves[3] = __float2half(8);
    at_file_scope[2] = 9;
    everywhere[1] = 10;
    Shared<float>::get()[3] = 11;
    Shared<int>::get()[3] = 12;
    out[12] = (float)((size_t)aligned % 64) + inner;
  }
  auto fill = [&](int at, float v) {
    __shared__ float from_lambda[32];
    from_lambda[at] = v;
    return from_lambda[at];
  };
  float echoed = fill(t, 13.f + t);
  __syncthreads();
  if (t != 0) return;
  float v[3] = {1, 2, 3};
  out[0] = Pair::sum(pairs[0]); out[1] = first[0]; out[2] = second[1][1];
  out[3] = __half2float(halves[3]); out[4] = at_file_scope[2]; out[5] = everywhere[1];
  out[6] = Shared<float>::get()[3]; out[7] = Shared<int>::get()[3]; out[8] = echoed;
  out[9] = table[1](config.n) * config.scale; out[10] = several[2] + one + bytes[3] + added(v);
  out[11] = level + fixed[1] + (where == nullptr);
}
}
template <class T> __device__ T last_of(volatile T *v, int n) { return v[n - 1]; }
extern "C" __global__ void volatiles(int *o, volatile float2 *pairs) {
  volatile int *flags = o;
  volatile float2 *local = pairs;
  const volatile int *reads = flags + 1;
  local[0].x = local[1].y + 1;
  atomicAdd((int *)flags, 5);
  if (flags && flags != nullptr && &flags[1] == flags + 1) *flags += 2;
  for (volatile int *p = flags; p < flags + 2; p++) *p = *p + 1;
  o[2] = last_of<int>(flags, 2) + reads[0];
}
template <class T> struct Number {
  T v;
  __device__ Number() {}
  __device__ Number(T x) : v(x) {}
  __device__ Number(const volatile Number &o) : v(o.v) {}
  __device__ Number(const Number &o) : v(o.v) {}
  __device__ void operator=(const Number &o) volatile { v = o.v; }
  __device__ void operator=(const Number &o) { v = o.v; }
};
template <class T> __device__ Number<T> operator+(const Number<T> &a, const Number<T> &b) { return Number<T>(a.v + b.v); }
template <class T> __device__ Number<T> operator+(const volatile Number<T> &a, const volatile Number<T> &b) { return Number<T>(a.v + b.v); }
extern "C" __global__ void sum_numbers(const float *in, float *out) {
  __shared__ float room[64];
  Number<float> *all = (Number<float> *)room;
  all[threadIdx.x] = Number<float>(in[threadIdx.x]);
  __syncthreads();
  if (threadIdx.x < 32) {
    volatile Number<float> *s = all;
    s[threadIdx.x] = s[threadIdx.x] + s[threadIdx.x + 32];
    s[threadIdx.x] = s[threadIdx.x] + s[threadIdx.x + 16];
    s[threadIdx.x] = s[threadIdx.x] + s[threadIdx.x + 8];
    s[threadIdx.x] = s[threadIdx.x] + s[threadIdx.x + 4];
    s[threadIdx.x] = s[threadIdx.x] + s[threadIdx.x + 2];
    s[threadIdx.x] = s[threadIdx.x] + s[threadIdx.x + 1];
  }
  if (threadIdx.x == 0) out[0] = all[0].v;
}
__device__ int (*chosen)(int) = thrice, (*others[2])(int) = {twice, thrice};
extern "C" __global__ void by_pointer(int *o) { o[0] = chosen(5) + others[0](7); }
