// The kernels of notebooks/05_cuda_without_a_gpu.ipynb: each shows one thing. In some of them it is
// a mistake.

// Turns a block's numbers round, by way of shared memory.
__global__ void turn_round(float *x) {
  __shared__ float tile[64];
  int i = threadIdx.x;
  tile[i] = x[i];
  __syncthreads();
  x[i] = tile[blockDim.x - 1 - i];
}

// A warp reads every n-th number.
__global__ void every_nth(const float *in, float *out, int n) {
  out[threadIdx.x] = in[threadIdx.x * n];
}

// Three transposes of a matrix of `size` by `size`, in blocks of 32 by 32.
__global__ void transpose_naive(const float *in, float *out, int size) {
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  out[x * size + y] = in[y * size + x];
}

__global__ void transpose_tiled(const float *in, float *out, int size) {
  __shared__ float tile[32][32];
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  tile[threadIdx.y][threadIdx.x] = in[y * size + x];
  __syncthreads();
  x = blockIdx.y * 32 + threadIdx.x, y = blockIdx.x * 32 + threadIdx.y;
  out[y * size + x] = tile[threadIdx.x][threadIdx.y];
}

__global__ void transpose_padded(const float *in, float *out, int size) {
  __shared__ float tile[32][33];
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  tile[threadIdx.y][threadIdx.x] = in[y * size + x];
  __syncthreads();
  x = blockIdx.y * 32 + threadIdx.x, y = blockIdx.x * 32 + threadIdx.y;
  out[y * size + x] = tile[threadIdx.x][threadIdx.y];
}

// The sum of a block's numbers, halving the threads at work each turn. Something is missing.
__global__ void block_sum(const float *in, float *out) {
  __shared__ float part[256];
  int i = threadIdx.x;
  part[i] = in[i];
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (i < half) part[i] += part[i + half];
  }
  if (i == 0) *out = part[0];
}
