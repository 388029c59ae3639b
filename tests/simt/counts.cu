// Small accesses whose sectors, conflicts and operations are worked out by hand in test_counts.py.
// A line under test bears a mark: //! and a name. All run as one warp unless the test says so.

extern "C" {

__global__ void strided(const float *in, float *out, int stride, int offset) {
  out[threadIdx.x] = in[threadIdx.x * stride + offset];  //! strided
}

__global__ void reversed(const float *in, float *out) {
  out[threadIdx.x] = in[31 - threadIdx.x];  //! reversed
}

__global__ void scattered(const int *at, const float *in, float *out) {
  int i = at[threadIdx.x];
  out[threadIdx.x] =
      in[i];  //! scattered
}

__global__ void wide(const float4 *in4, const float2 *in2, const double *in8,
                     const unsigned char *in1, float *out) {
  float4 a = in4[threadIdx.x];  //! float4
  float2 b = in2[threadIdx.x];  //! float2
  double c = in8[threadIdx.x];  //! double
  int d = in1[threadIdx.x];     //! byte
  out[threadIdx.x] = a.x + a.y + a.z + a.w + b.x + b.y + (float)c + d;
}

__global__ void transpose_naive(const float *in, float *out, int n) {
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  float v = in[y * n + x];  //! naive_load
  out[x * n + y] = v;       //! naive_store
}

extern "C++" template <int pad> __device__ void transpose(const float *in, float *out, int n) {
  __shared__ float tile[32][32 + pad];
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  tile[threadIdx.y][threadIdx.x] =  //! tile_store
      in[y * n + x];
  __syncthreads();
  x = blockIdx.y * 32 + threadIdx.x, y = blockIdx.x * 32 + threadIdx.y;
  float v = tile[threadIdx.x][threadIdx.y];  //! tile_load
  out[y * n + x] = v;                        //! tile_out
}
__global__ void transpose_tiled(const float *in, float *out, int n) { transpose<0>(in, out, n); }
__global__ void transpose_padded(const float *in, float *out, int n) { transpose<1>(in, out, n); }

__global__ void shared_strided(float *out, int stride) {
  extern __shared__ float tile[];
  for (int i = threadIdx.x; i < 32 * stride; i += 32) tile[i] = i;
  __syncwarp();
  out[threadIdx.x] = tile[threadIdx.x * stride];  //! shared_strided
}

__global__ void shared_wide(float4 *out4, float2 *out2, int stride) {
  __shared__ float4 tile4[32 * 3];
  float2 *tile2 = (float2 *)tile4;
  for (int i = 0; i < 3; i++) tile4[threadIdx.x + 32 * i] = make_float4(1, 2, 3, 4);
  __syncwarp();
  out4[threadIdx.x] = tile4[threadIdx.x * stride];  //! shared_float4
  out2[threadIdx.x] = tile2[threadIdx.x * stride];  //! shared_float2
}

__global__ void shared_pattern(const int *at, float *out) {
  __shared__ float tile[1024];
  for (int i = threadIdx.x; i < 1024; i += 32) tile[i] = i;
  __syncwarp();
  int i = at[threadIdx.x];
  out[threadIdx.x] =
      tile[i];  //! shared_pattern
}

__global__ void triangle(const float *in, float *out) {
  float sum = 0.0f;
  for (int i = 0; i < threadIdx.x; i++)
    sum += in[i];  //! triangle
  out[threadIdx.x] = sum;
}

__global__ void turn_by_turn(const float *in, float *out) {
  float sum = 0.0f;
  for (int i = 0; i < 4; i++)
    if (threadIdx.x % 4 == i)
      sum += in[threadIdx.x];  //! turn_by_turn
  out[threadIdx.x] = sum;
}

__global__ void two_ways(const float *in, float *out) {
  float x;
  if (threadIdx.x < 8) {
    x = 2.0f * in[threadIdx.x];  //! first_way
  } else {
    x = in[2 * threadIdx.x] + 1.0f;  //! second_way
  }
  out[threadIdx.x] = x;  //! together_again
}

__device__ __noinline__ float called(const float *in, int i) {
  return in[i];  //! called
}
__global__ void through_a_call(const float *in, float *out) {
  float x = 0.0f;
  if (threadIdx.x % 2) x = called(in, threadIdx.x);
  else x = called(in, threadIdx.x + 32);
  out[threadIdx.x] = x;  //! after_the_call
}

__global__ void count_atomics(int *count) {
  atomicAdd(&count[threadIdx.x / 8], 1);  //! count_atomics
}

__global__ void saxpy(const float *x, float *y, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    y[i] = a * x[i] + y[i];  //! saxpy
}

__global__ void exponentials(const float *x, float *y, const double *z) {
  y[threadIdx.x] = expf(x[threadIdx.x])  //! exponentials
      + (float)(z[threadIdx.x] * 3.0 - 1.0);  //! doubles
}

__global__ void read_twice(const float *in, float *out, int n) {
  float sum = 0.0f;
  for (int turn = 0; turn < 2; turn++)
    for (int i = threadIdx.x; i < n; i += 32)
      sum += in[i];  //! read_twice
  out[threadIdx.x] = sum;
}

}  // extern "C"
