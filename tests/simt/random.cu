// Kernels whose results do not depend on how they are launched.
extern "C" {
__global__ void stride(const int *x, int *out, int n) {
  int blocks = gridDim.x * gridDim.y * gridDim.z, threads = blockDim.x * blockDim.y * blockDim.z;
  int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  for (int i = block * threads + thread; i < n; i += blocks * threads) out[i] = x[i] * 3 + 1;
}
__global__ void reduce(const int *x, int *out, int n) {
  extern __shared__ int part[];
  int threads = blockDim.x * blockDim.y * blockDim.z;
  int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  int sum = 0;
  for (int i = thread; i < n; i += threads) sum += x[blockIdx.x * n + i];
  part[thread] = sum;
  for (int left = threads; left > 1;) {
    int half = (left + 1) / 2;
    __syncthreads();
    if (thread + half < left) part[thread] += part[thread + half];
    left = half;
  }
  if (thread == 0) out[blockIdx.x] = part[0];
}
__global__ void scan(const int *x, int *out, int n) {
  __shared__ int totals[32];
  int t = threadIdx.x, lane = t & 31, warp = t >> 5, carry = 0;
  for (int base = 0; base < n; base += blockDim.x) {
    int i = base + t, v = i < n ? x[blockIdx.x * n + i] : 0;
    for (int d = 1; d < 32; d *= 2) {
      int below = __shfl_up_sync(0xffffffffu, v, d);
      if (lane >= d) v += below;
    }
    if (lane == 31 || t == blockDim.x - 1) totals[warp] = v;
    __syncthreads();
    int before = carry, all = 0;
    for (int w = 0; w < (blockDim.x + 31) / 32; w++) {
      if (w < warp) before += totals[w];
      all += totals[w];
    }
    if (i < n) out[blockIdx.x * n + i] = v + before;
    carry += all;
    __syncthreads();
  }
}
__global__ void transpose(const int *x, int *out, int rows, int columns, int pitch) {
  extern __shared__ int tile[];
  int side_x = blockDim.x, side_y = blockDim.y, n = blockDim.x;
  int column = blockIdx.x * n + threadIdx.x;
  for (int k = threadIdx.y; k < n; k += side_y) {
    int row = blockIdx.y * n + k;
    if (row < rows && column < columns) tile[k * pitch + threadIdx.x] = x[row * columns + column];
  }
  __syncthreads();
  int to_column = blockIdx.y * n + threadIdx.x;
  for (int k = threadIdx.y; k < side_x; k += side_y) {
    int to_row = blockIdx.x * n + k;
    if (to_row < columns && to_column < rows)
      out[to_row * rows + to_column] = tile[threadIdx.x * pitch + k];
  }
}
__global__ void histogram(const int *x, int *out, int n, int bins) {
  extern __shared__ int count[];
  for (int b = threadIdx.x; b < bins; b += blockDim.x) count[b] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&count[x[i] % bins], 1);
  __syncthreads();
  for (int b = threadIdx.x; b < bins; b += blockDim.x)
    if (count[b]) atomicAdd(&out[b], count[b]);
}
}
