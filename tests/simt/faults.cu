// Kernels with one planted fault each. The line at fault bears a mark: //! and the kernel's name.
// Launched by test_faults.py.

extern "C" {

// ---- out of bounds, after free, misaligned ----------------------------------------------------

__global__ void past_the_end(float *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i <= n) out[i] = 1.0f;  //! past_the_end
}

__global__ void before_the_start(const float *in, float *out) {
  int i = threadIdx.x;
  out[i] = in[i - 1];  //! before_the_start
}

__global__ void wild_pointer(float *out) {
  float *far = out + (1ll << 40);
  if (threadIdx.x == 3) *far = 2.0f;  //! wild_pointer
}

__global__ void after_free(const float *freed, float *out) {
  out[threadIdx.x] = freed[threadIdx.x];  //! after_free
}

__global__ void misaligned(const float *in, float *out) {
  float4 v = *(const float4 *)(in + 1);  //! misaligned
  out[threadIdx.x] = v.x;
}

__global__ void shared_past_the_end(float *out, int n) {
  extern __shared__ float tile[];
  tile[threadIdx.x + n] = 1.0f;  //! shared_past_the_end
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x + n];
}

__device__ int table[16];
__global__ void module_variable(int *out) {
  table[threadIdx.x * 64] = threadIdx.x;  //! module_variable
  out[threadIdx.x] = 0;
}

__global__ void atomic_past_the_end(int *counts, const int *key) {
  atomicAdd(&counts[key[threadIdx.x]], 1);  //! atomic_past_the_end
}

// ---- memory that nothing wrote ----------------------------------------------------------------

__global__ void uninitialised(const float *in, float *out) {
  out[threadIdx.x] = 2.0f * in[threadIdx.x];  //! uninitialised
}

__global__ void half_copied(const float *in, float *out) {
  out[threadIdx.x] = in[threadIdx.x];  //! half_copied
}

__global__ void counter_not_cleared(int *count) {
  atomicAdd(count, 1);  //! counter_not_cleared
}

__global__ void stale_shared(float *out) {
  __shared__ float tile[64];
  if (threadIdx.x < 32) tile[threadIdx.x] = 1.0f;
  __syncthreads();
  out[blockIdx.x * 64 + threadIdx.x] = tile[threadIdx.x];  //! stale_shared
}

__global__ void accumulator_not_cleared(const float *in, float *out) {
  __shared__ float sum[32];
  sum[threadIdx.x] += in[threadIdx.x];  //! accumulator_not_cleared
  out[threadIdx.x] = sum[threadIdx.x];
}

// ---- races ------------------------------------------------------------------------------------

__global__ void missing_barrier(const float *in, float *out) {
  __shared__ float tile[128];
  tile[threadIdx.x] = in[threadIdx.x];
  out[threadIdx.x] = tile[127 - threadIdx.x];  //! missing_barrier
}

__global__ void race_in_warp(const float *in, float *out) {
  __shared__ float tile[33];
  tile[threadIdx.x] = in[threadIdx.x];
  if (threadIdx.x == 0) tile[32] = 0.0f;
  __syncwarp();
  out[threadIdx.x] = tile[threadIdx.x + 1];
  tile[threadIdx.x] = 2.0f;  //! race_in_warp
}

__global__ void warp_synchronous(const float *in, float *out) {
  __shared__ volatile float sum[64];
  int t = threadIdx.x;
  sum[t] = in[t];
  if (t < 32) sum[t + 32] = 0.0f;
  __syncwarp();
  for (int d = 16; d > 0; d /= 2)
    if (t < 32) sum[t] = sum[t] + sum[t + d];  //! warp_synchronous
  if (t == 0) *out = sum[0];
}

__global__ void reduction_without_barrier(const float *in, float *out) {
  __shared__ float sum[256];
  int t = threadIdx.x;
  sum[t] = in[t];
  __syncthreads();
  for (int d = 128; d > 0; d /= 2)
    if (t < d) sum[t] += sum[t + d];  //! reduction_without_barrier
  if (t == 0) *out = sum[0];
}

__global__ void scan_in_place(const float *in, float *out) {
  __shared__ float x[128];
  int t = threadIdx.x;
  x[t] = in[t];
  __syncthreads();
  for (int d = 1; d < 128; d *= 2) {
    if (t >= d) x[t] += x[t - d];  //! scan_in_place
    __syncthreads();
  }
  out[t] = x[t];
}

__global__ void histogram_without_atomics(const int *key, int *out) {
  __shared__ int bins[16];
  if (threadIdx.x < 16) bins[threadIdx.x] = 0;
  __syncthreads();
  bins[key[threadIdx.x]]++;  //! histogram_without_atomics
  __syncthreads();
  if (threadIdx.x < 16) out[threadIdx.x] = bins[threadIdx.x];
}

__global__ void tile_reused_too_early(const float *in, float *out, int steps) {
  __shared__ float tile[128];
  float sum = 0.0f;
  for (int s = 0; s < steps; s++) {
    tile[threadIdx.x] = in[s * 128 + threadIdx.x];  //! tile_reused_too_early
    __syncthreads();
    sum += tile[127 - threadIdx.x];
  }
  out[threadIdx.x] = sum;
}

__global__ void sum_between_blocks(const float *in, float *sum) {
  if (threadIdx.x == 0) *sum += in[blockIdx.x];  //! sum_between_blocks
}

__global__ void written_by_a_later_block(float *x, float *out) {
  if (threadIdx.x > 0) return;
  if (blockIdx.x == 0) out[0] = x[0];
  if (blockIdx.x == 1) x[0] = 2.0f;  //! written_by_a_later_block
}

__global__ void stencil_in_place(float *x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float left = i > 0 ? x[i - 1] : 0.0f;
  __syncthreads();
  x[i] = left + 1.0f;  //! stencil_in_place
}

__global__ void reads_what_others_count(int *count, int *out) {
  atomicAdd(count, 1);
  out[blockIdx.x * blockDim.x + threadIdx.x] = *count;  //! reads_what_others_count
}

__device__ unsigned int ticket;
__global__ void last_block_without_fence(const float *in, float *part, float *out) {
  __shared__ bool is_last;
  if (threadIdx.x == 0) {
    part[blockIdx.x] = in[blockIdx.x];
    is_last = atomicInc(&ticket, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (is_last && threadIdx.x == 0) {
    float sum = 0.0f;
    for (int b = 0; b < gridDim.x; b++) sum += part[b];  //! last_block_without_fence
    *out = sum;
  }
}

__global__ void flag_without_fence(volatile int *flag, int *data, int *out) {
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    *data = 42;
    *flag = 1;
  }
  if (blockIdx.x == 1 && threadIdx.x == 0 && *flag) *out = *data;  //! flag_without_fence
}

__global__ void same_cell_twice(int *out) {
  out[threadIdx.x / 2] = threadIdx.x;  //! same_cell_twice
}

__global__ void bytes_of_a_word(unsigned char *out) {
  out[threadIdx.x / 2 * 2] = (unsigned char)threadIdx.x;  //! bytes_of_a_word
}

// ---- barriers and masks -----------------------------------------------------------------------

__global__ void barrier_in_branch(float *out) {
  if (threadIdx.x < 32) {
    out[threadIdx.x] = 1.0f;
    __syncthreads();  //! barrier_in_branch
    out[threadIdx.x] += 1.0f;
  } else {
    out[threadIdx.x] = 3.0f;
    __syncthreads();
    out[threadIdx.x] += 2.0f;
  }
}

__global__ void early_return(float *out, int n) {
  if (threadIdx.x >= n) return;
  out[threadIdx.x] = 1.0f;
  __syncthreads();  //! early_return
  out[threadIdx.x] += 1.0f;
}

__global__ void barriers_in_unequal_loops(float *out) {
  float x = 0.0f;
  for (int i = 0; i < threadIdx.x / 32 + 1; i++) {
    x += 1.0f;
    __syncthreads();  //! barriers_in_unequal_loops
  }
  out[threadIdx.x] = x;
}

__global__ void not_in_its_mask(int *out) {
  out[threadIdx.x] = __shfl_sync(0x0000ffffu, (int)threadIdx.x, 0);  //! not_in_its_mask
}

// ---- slow, not wrong --------------------------------------------------------------------------

__global__ void column_walk(const float *in, float *out, int n) {
  int i = threadIdx.x;
  float sum = 0.0f;
  for (int j = 0; j < n; j++) sum += in[i * n + j];  //! column_walk
  out[i] = sum;
}

__global__ void every_second(const float *in, float *out) {
  out[threadIdx.x] = in[2 * threadIdx.x];  //! every_second
}

__global__ void shifted_by_one(const float *in, float *out) {
  out[threadIdx.x] = in[threadIdx.x + 1];  //! shifted_by_one
}

__global__ void conflict_of_32(float *out) {
  __shared__ float tile[32][32];
  for (int j = 0; j < 32; j++) tile[j][threadIdx.x] = j;
  __syncwarp();
  float sum = 0.0f;
  for (int j = 0; j < 32; j++) sum += tile[threadIdx.x][j];  //! conflict_of_32
  out[threadIdx.x] = sum;
}

__global__ void conflict_of_2(float *out) {
  __shared__ float tile[64];
  tile[threadIdx.x] = 1.0f;
  tile[threadIdx.x + 32] = 2.0f;
  __syncwarp();
  out[threadIdx.x] = tile[2 * threadIdx.x];  //! conflict_of_2
}

__global__ void one_lane_works(float *out, int n) {
  if (threadIdx.x == 0)
    for (int i = 0; i < n; i++) out[i] = i;  //! one_lane_works
}

// ---- what is not found ------------------------------------------------------------------------

// The index is wrong, but the address is inside the buffer (and inside the shared memory).
__global__ void wrong_row(const float *in, float *out, int width) {
  out[threadIdx.x] = in[threadIdx.x + width];
}

__global__ void into_the_next_array(float *out) {
  __shared__ float first[32], second[32];
  first[threadIdx.x] = 1.0f;
  second[threadIdx.x] = 2.0f;
  out[threadIdx.x] = first[threadIdx.x] + second[threadIdx.x];
  if (threadIdx.x == 31) first[(int)threadIdx.x + 1] = 9.0f;
}

}  // extern "C"
