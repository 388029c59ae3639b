// Correct kernels of many kinds: the analysis must find nothing wrong in them.
// Launched by test_correct.py, which checks their results too.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

#define FULL 0xffffffffu

__device__ __forceinline__ float warp_sum(float x) {
  for (int d = 16; d > 0; d /= 2) x += __shfl_down_sync(FULL, x, d);
  return x;
}

__device__ float block_sum(float x, float *part) {
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  x = warp_sum(x);
  if (lane == 0) part[warp] = x;
  __syncthreads();
  x = threadIdx.x < blockDim.x / 32 ? part[lane] : 0.0f;
  if (warp == 0) x = warp_sum(x);
  if (threadIdx.x == 0) part[0] = x;
  __syncthreads();
  x = part[0];
  __syncthreads();
  return x;
}

extern "C" {

__global__ void add(const float *a, const float *b, float *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a[i] + b[i];
}

__global__ void scale4(const float4 *a, float4 *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n / 4) return;
  float4 v = a[i];
  v.x *= 2.0f, v.y *= 2.0f, v.z *= 2.0f, v.w *= 2.0f;
  out[i] = v;
}

__global__ void grid_stride(const float *a, float *out, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    out[i] = a[i] + 1.0f;
}

__global__ void in_place(float *x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = x[i] * x[i];
}

__global__ void reduce_shared(const float *a, float *out, int n) {
  extern __shared__ float sum[];
  int t = threadIdx.x;
  float mine = 0.0f;
  for (int i = t; i < n; i += blockDim.x) mine += a[i];
  sum[t] = mine;
  __syncthreads();
  for (int d = blockDim.x / 2; d > 0; d /= 2) {
    if (t < d) sum[t] += sum[t + d];
    __syncthreads();
  }
  if (t == 0) *out = sum[0];
}

__global__ void reduce_last_warp(const float *a, float *out, int n) {
  __shared__ float sum[256];
  int t = threadIdx.x;
  float mine = 0.0f;
  for (int i = t; i < n; i += 256) mine += a[i];
  sum[t] = mine;
  __syncthreads();
  for (int d = 128; d >= 32; d /= 2) {
    if (t < d) sum[t] += sum[t + d];
    __syncthreads();
  }
  if (t < 32) {
    for (int d = 16; d > 0; d /= 2) {
      float other = sum[t + d];
      __syncwarp();
      sum[t] += other;
      __syncwarp();
    }
    if (t == 0) *out = sum[0];
  }
}

__global__ void reduce_shuffle(const float *a, float *out, int n) {
  __shared__ float part[32];
  float mine = 0.0f;
  for (int i = threadIdx.x; i < n; i += blockDim.x) mine += a[i];
  mine = block_sum(mine, part);
  if (threadIdx.x == 0) *out = mine;
}

__global__ void reduce_atomic(const float *a, float *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float x = warp_sum(i < n ? a[i] : 0.0f);
  if (threadIdx.x % 32 == 0) atomicAdd(out, x);
}

__device__ unsigned int blocks_done;
__global__ void reduce_last_block(const float *a, float *part, float *out, int n) {
  __shared__ float sums[32];
  __shared__ bool is_last;
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float x = block_sum(i < n ? a[i] : 0.0f, sums);
  if (threadIdx.x == 0) {
    part[blockIdx.x] = x;
    __threadfence();
    is_last = atomicInc(&blocks_done, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (!is_last) return;
  x = threadIdx.x < gridDim.x ? part[threadIdx.x] : 0.0f;
  x = block_sum(x, sums);
  if (threadIdx.x == 0) *out = x;
}

__global__ void scan_two_buffers(const float *a, float *out) {
  __shared__ float x[2][128];
  int t = threadIdx.x, from = 0;
  x[0][t] = a[t];
  __syncthreads();
  for (int d = 1; d < 128; d *= 2) {
    x[1 - from][t] = x[from][t] + (t >= d ? x[from][t - d] : 0.0f);
    from = 1 - from;
    __syncthreads();
  }
  out[t] = x[from][t];
}

__global__ void scan_blelloch(const float *a, float *out) {
  __shared__ float x[128];
  int t = threadIdx.x;
  x[2 * t] = a[2 * t];
  x[2 * t + 1] = a[2 * t + 1];
  int offset = 1;
  for (int d = 64; d > 0; d /= 2) {
    __syncthreads();
    if (t < d) x[offset * (2 * t + 2) - 1] += x[offset * (2 * t + 1) - 1];
    offset *= 2;
  }
  if (t == 0) x[127] = 0.0f;
  for (int d = 1; d < 128; d *= 2) {
    offset /= 2;
    __syncthreads();
    if (t < d) {
      int i = offset * (2 * t + 1) - 1, j = offset * (2 * t + 2) - 1;
      float left = x[i];
      x[i] = x[j];
      x[j] += left;
    }
  }
  __syncthreads();
  out[2 * t] = x[2 * t] + a[2 * t];
  out[2 * t + 1] = x[2 * t + 1] + a[2 * t + 1];
}

__global__ void scan_warp(const float *a, float *out) {
  float x = a[threadIdx.x];
  for (int d = 1; d < 32; d *= 2) {
    float left = __shfl_up_sync(FULL, x, d);
    if (threadIdx.x % 32 >= d) x += left;
  }
  out[threadIdx.x] = x;
}

__global__ void transpose_naive(const float *a, float *out, int n) {
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  out[x * n + y] = a[y * n + x];
}

__global__ void transpose_padded(const float *a, float *out, int n) {
  __shared__ float tile[32][33];
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += blockDim.y) tile[threadIdx.y + j][threadIdx.x] = a[(y + j) * n + x];
  __syncthreads();
  x = blockIdx.y * 32 + threadIdx.x, y = blockIdx.x * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += blockDim.y) out[(y + j) * n + x] = tile[threadIdx.x][threadIdx.y + j];
}

__global__ void histogram_global(const int *key, int *bins, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&bins[key[i]], 1);
}

__global__ void histogram_shared(const int *key, int *bins, int n) {
  __shared__ int mine[16];
  if (threadIdx.x < 16) mine[threadIdx.x] = 0;
  __syncthreads();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&mine[key[i]], 1);
  __syncthreads();
  if (threadIdx.x < 16) atomicAdd(&bins[threadIdx.x], mine[threadIdx.x]);
}

__global__ void softmax(const float *a, float *out, int width) {
  __shared__ float part[32];
  const float *row = a + blockIdx.x * width;
  float most = -1e30f;
  for (int i = threadIdx.x; i < width; i += blockDim.x) most = fmaxf(most, row[i]);
  for (int d = 16; d > 0; d /= 2) most = fmaxf(most, __shfl_xor_sync(FULL, most, d));
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = most;
  __syncthreads();
  for (int w = 0; w < blockDim.x / 32; w++) most = fmaxf(most, part[w]);
  __syncthreads();
  float sum = 0.0f;
  for (int i = threadIdx.x; i < width; i += blockDim.x) sum += expf(row[i] - most);
  sum = block_sum(sum, part);
  for (int i = threadIdx.x; i < width; i += blockDim.x)
    out[blockIdx.x * width + i] = expf(row[i] - most) / sum;
}

__global__ void matvec_warp(const float *a, const float *x, float *out, int rows, int width) {
  int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  float sum = 0.0f;
  for (int i = lane; i < width; i += 32) sum += a[row * width + i] * x[i];
  sum = warp_sum(sum);
  if (lane == 0) out[row] = sum;
}

__global__ void sgemm_naive(const float *a, const float *b, float *c, int n) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  float sum = 0.0f;
  for (int k = 0; k < n; k++) sum += a[y * n + k] * b[k * n + x];
  c[y * n + x] = sum;
}

__global__ void sgemm_tiled(const float *a, const float *b, float *c, int n) {
  __shared__ float as[16][16], bs[16][16];
  int tx = threadIdx.x, ty = threadIdx.y;
  int x = blockIdx.x * 16 + tx, y = blockIdx.y * 16 + ty;
  float sum = 0.0f;
  for (int t = 0; t < n; t += 16) {
    as[ty][tx] = a[y * n + t + tx];
    bs[ty][tx] = b[(t + ty) * n + x];
    __syncthreads();
    for (int k = 0; k < 16; k++) sum += as[ty][k] * bs[k][tx];
    __syncthreads();
  }
  c[y * n + x] = sum;
}

__global__ void sgemm_two_buffers(const float *a, const float *b, float *c, int n) {
  __shared__ float as[2][16][16], bs[2][16][16];
  int tx = threadIdx.x, ty = threadIdx.y, now = 0;
  int x = blockIdx.x * 16 + tx, y = blockIdx.y * 16 + ty;
  float sum = 0.0f;
  as[0][ty][tx] = a[y * n + tx];
  bs[0][ty][tx] = b[ty * n + x];
  __syncthreads();
  for (int t = 16; t <= n; t += 16) {
    if (t < n) {
      as[1 - now][ty][tx] = a[y * n + t + tx];
      bs[1 - now][ty][tx] = b[(t + ty) * n + x];
    }
    for (int k = 0; k < 16; k++) sum += as[now][ty][k] * bs[now][k][tx];
    __syncthreads();
    now = 1 - now;
  }
  c[y * n + x] = sum;
}

// Each thread computes 4 x 4 of a 32 x 32 tile, in registers.
__global__ void sgemm_registers(const float *a, const float *b, float *c, int n) {
  __shared__ float as[8][32], bs[8][32];
  float sum[4][4] = {};
  int t = threadIdx.x, tx = t % 8 * 4, ty = t / 8 * 4;
  int row = blockIdx.y * 32, column = blockIdx.x * 32;
  for (int k0 = 0; k0 < n; k0 += 8) {
    for (int i = t; i < 256; i += 64) {
      as[i % 8][i / 8] = a[(row + i / 8) * n + k0 + i % 8];
      bs[i / 32][i % 32] = b[(k0 + i / 32) * n + column + i % 32];
    }
    __syncthreads();
    for (int k = 0; k < 8; k++)
      for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) sum[i][j] += as[k][ty + i] * bs[k][tx + j];
    __syncthreads();
  }
  for (int i = 0; i < 4; i++)
    *(float4 *)&c[(row + ty + i) * n + column + tx] =
        make_float4(sum[i][0], sum[i][1], sum[i][2], sum[i][3]);
}

__global__ void stencil(const float *a, float *out, int n) {
  __shared__ float tile[130];
  int i = blockIdx.x * 128 + threadIdx.x;
  tile[threadIdx.x + 1] = a[i];
  if (threadIdx.x == 0) tile[0] = i > 0 ? a[i - 1] : 0.0f;
  if (threadIdx.x == 127) tile[129] = i + 1 < n ? a[i + 1] : 0.0f;
  __syncthreads();
  out[i] = tile[threadIdx.x] + tile[threadIdx.x + 1] + tile[threadIdx.x + 2];
}

__constant__ float taps[3] = {0.25f, 0.5f, 0.25f};
__global__ void filter(const float *a, float *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0.0f;
  for (int k = 0; k < 3; k++)
    if (i + k - 1 >= 0 && i + k - 1 < n) sum += taps[k] * a[i + k - 1];
  out[i] = sum;
}

__global__ void bitonic_sort(float *x) {
  __shared__ float s[128];
  int t = threadIdx.x;
  s[t] = x[t];
  for (int k = 2; k <= 128; k *= 2)
    for (int j = k / 2; j > 0; j /= 2) {
      __syncthreads();
      int other = t ^ j;
      if (other > t && ((t & k) == 0) == (s[t] > s[other])) {
        float mine = s[t];
        s[t] = s[other];
        s[other] = mine;
      }
    }
  __syncthreads();
  x[t] = s[t];
}

__global__ void compact(const float *a, float *out, int *count, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && a[i] > 0.0f) out[atomicAdd(count, 1)] = a[i];
}

__global__ void compact_by_warp(const float *a, float *out, int *count, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32, at = 0;
  bool keep = i < n && a[i] > 0.0f;
  unsigned int keepers = __ballot_sync(FULL, keep);
  if (lane == 0 && keepers) at = atomicAdd(count, __popc(keepers));
  at = __shfl_sync(FULL, at, 0);
  if (keep) out[at + __popc(keepers & ((1u << lane) - 1))] = a[i];
}

__global__ void locked_sum(const float *a, volatile float *sum, int *lock, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (threadIdx.x % 32 != 0 || i >= n) return;
  while (atomicCAS(lock, 0, 1) != 0) {
  }
  __threadfence();
  *sum = *sum + a[i];
  __threadfence();
  atomicExch(lock, 0);
}

__global__ void hand_over(volatile int *flag, volatile int *ready, int *data, int *out) {
  if (threadIdx.x != 0) return;
  if (blockIdx.x > 0)
    while (flag[blockIdx.x - 1] == 0) {
    }
  __threadfence();
  int before = blockIdx.x > 0 ? data[blockIdx.x - 1] : 0;
  data[blockIdx.x] = before + 1;
  __threadfence();
  flag[blockIdx.x] = 1;
  if (blockIdx.x == gridDim.x - 1) *out = data[blockIdx.x];
}

__global__ void all_raise_one_flag(const float *a, int *found, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && a[i] > 0.5f) *found = 1;
}

__global__ void greatest(const float *a, int *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicMax(out, __float_as_int(fabsf(a[i])));
}

__global__ void escape_time(int *out, int width) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float cx = -2.0f + 3.0f * (i % width) / width, cy = -1.0f + 2.0f * (i / width) / width;
  float x = 0.0f, y = 0.0f;
  int steps = 0;
  while (x * x + y * y < 4.0f && steps < 50) {
    float next = x * x - y * y + cx;
    y = 2.0f * x * y + cy;
    x = next;
    steps++;
  }
  out[i] = steps;
}

__global__ void byte_each(const unsigned char *a, unsigned char *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = 255 - a[i];
}

__global__ void bytes_in_shared(const unsigned char *a, unsigned char *out) {
  __shared__ unsigned char s[128];
  s[threadIdx.x] = a[blockIdx.x * 128 + threadIdx.x];
  __syncthreads();
  out[blockIdx.x * 128 + threadIdx.x] = s[127 - threadIdx.x];
}

__global__ void vote_count(const float *a, int *out) {
  int above = __syncthreads_count(a[threadIdx.x] > 0.0f);
  int any = __syncthreads_or(a[threadIdx.x] > 2.0f);
  if (threadIdx.x == 0) out[0] = above + (any ? 1000 : 0);
}

__global__ void tile_group(const float *a, float *out) {
  cg::thread_block block = cg::this_thread_block();
  cg::thread_block_tile<8> tile = cg::tiled_partition<8>(block);
  __shared__ float s[128];
  s[threadIdx.x] = a[threadIdx.x];
  tile.sync();
  float sum = 0.0f;
  for (int i = 0; i < 8; i++) sum += s[threadIdx.x / 8 * 8 + i];
  for (int d = 4; d > 0; d /= 2) sum += tile.shfl_down(sum, d);
  block.sync();
  if (tile.thread_rank() == 0) out[threadIdx.x / 8] = sum;
}

__global__ void halves_of_a_warp(const float *a, float *out) {
  __shared__ float s[32];
  int t = threadIdx.x;
  if (t < 16) {
    s[t] = a[t];
    __syncwarp(0x0000ffffu);
    out[t] = s[15 - t];
  } else {
    s[t] = 2.0f * a[t];
    __syncwarp(0xffff0000u);
    out[t] = s[47 - t];
  }
}

// One meeting of the warp, that its halves come to at different lines.
__global__ void meet_from_two_sides(const float *a, float *out) {
  __shared__ float s[32];
  int t = threadIdx.x;
  if (t < 16) {
    s[t] = a[t];
    __syncwarp();
    out[t] = s[t + 16];
  } else {
    s[t] = a[t] + 1.0f;
    __syncwarp();
    out[t] = s[t - 16];
  }
}

__global__ void sum_of_structs(const float3 *a, float *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a[i].x + a[i].y + a[i].z;
}

}  // extern "C"
