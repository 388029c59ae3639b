#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;
#define ALL 0xffffffffu

template <typename T> __device__ void shuffles(const T *in, T *out, int arg, int width) {
  int t = threadIdx.x, n = blockDim.x;
  T v = in[t];
  out[t] = __shfl_sync(ALL, v, arg, width);
  out[n + t] = __shfl_up_sync(ALL, v, arg, width);
  out[2 * n + t] = __shfl_down_sync(ALL, v, arg, width);
  out[3 * n + t] = __shfl_xor_sync(ALL, v, arg, width);
}
extern "C" {
__global__ void shuffle_int(const int *in, int *out, int arg, int width) { shuffles(in, out, arg, width); }
__global__ void shuffle_double(const double *in, double *out, int arg, int width) { shuffles(in, out, arg, width); }
__global__ void votes(const int *in, unsigned *out) {
  int t = threadIdx.x, v = in[t], p;
  unsigned *o = out + t * 8;
  o[0] = __ballot_sync(ALL, v & 1);
  o[1] = __any_sync(ALL, v == 7);
  o[2] = __all_sync(ALL, v < 8);
  o[3] = __match_any_sync(ALL, v);
  o[4] = __match_all_sync(ALL, v, &p);
  o[5] = p;
  o[6] = __reduce_add_sync(ALL, (unsigned)v);
  o[7] = __reduce_max_sync(ALL, (unsigned)v);
}
__global__ void halves(int *out) {
  int t = threadIdx.x, v = t;
  unsigned mask = t < 16 ? 0xffffu : 0xffff0000u;
  if (t < 16) {
    for (int d = 8; d; d >>= 1) v += __shfl_xor_sync(mask, v, d);
  } else {
    for (int d = 8; d; d >>= 1) v = max(v, __shfl_xor_sync(mask, v, d));
    __syncwarp(mask);
  }
  out[t] = v;
}
__global__ void other_lines(int *out) {
  int t = threadIdx.x, v;
  if (t % 2) v = __shfl_sync(ALL, t, 5);
  else v = __shfl_sync(ALL, t + 100, 5);
  out[t] = v;
}
__global__ void active(unsigned *out) {
  int t = threadIdx.x;
  if (t % 3 == 0) out[t] = __activemask();
  else if (t % 3 == 1) out[t] = __activemask();
  else out[t] = 0;
}
__global__ void aggregated(int *counter, int *place) {
  int t = threadIdx.x + blockIdx.x * blockDim.x;
  if (t % 3 == 0) {
    unsigned mask = __activemask();
    int leader = __ffs(mask) - 1, lane = threadIdx.x % 32, base;
    if (lane == leader) base = atomicAdd(counter, __popc(mask));
    base = __shfl_sync(mask, base, leader);
    place[t] = base + __popc(mask & ((1u << lane) - 1));
  }
}
__global__ void some_left(int *out) {
  int t = threadIdx.x;
  if (t >= 20) return;
  out[t] = __ballot_sync(ALL, t % 2);
}
__global__ void grouped(const int *in, int *out) {
  auto block = cg::this_thread_block();
  auto warp = cg::tiled_partition<32>(block);
  auto tile = cg::tiled_partition<8>(warp);
  int t = block.thread_rank(), v = in[t];
  int *o = out + t * 8;
  o[0] = cg::reduce(tile, v, cg::plus<int>());
  o[1] = cg::reduce(warp, v, cg::greater<int>());
  o[2] = tile.shfl_xor(v, 3);
  o[3] = tile.ballot(v > 3);
  o[4] = cg::inclusive_scan(tile, v);
  o[5] = cg::exclusive_scan(tile, v, cg::plus<int>());
  o[6] = tile.meta_group_rank() * 100 + tile.thread_rank();
  if (v % 2) {
    auto odd = cg::coalesced_threads();
    o[7] = odd.size() * 100 + odd.thread_rank();
  } else {
    o[7] = -1;
  }
  block.sync();
}
}
// Before Volta: in step by `volatile` alone.
__device__ void reduce_last_warp(volatile int *s, int t) {
  s[t] += s[t + 16]; s[t] += s[t + 8]; s[t] += s[t + 4]; s[t] += s[t + 2]; s[t] += s[t + 1];
}
extern "C" __global__ void in_step(const int *in, int *out) {
  __shared__ int first[96], second[96];
  __shared__ volatile int third[96];
  int t = threadIdx.x, lane = t & 31, warp = t >> 5;
  first[t] = second[t] = third[t] = in[t];
  __syncthreads();
  if (warp == 0) {
    reduce_last_warp(first, lane);
  } else if (warp == 1) {
    volatile int *s = second + 32;
    s[lane] = s[lane] + s[lane + 16]; s[lane] = s[lane] + s[lane + 8];
    s[lane] = s[lane] + s[lane + 4]; s[lane] = s[lane] + s[lane + 2];
    s[lane] = s[lane] + s[lane + 1];
  } else {
    int at = t - 32;  // the second warp's numbers again
    third[at] += third[at + 16]; third[at] += third[at + 8]; third[at] += third[at + 4];
    third[at] += third[at + 2]; third[at] += third[at + 1];
  }
  __syncthreads();
  if (t == 0) { out[0] = first[0]; out[1] = second[32]; out[2] = third[32]; }
}
extern "C" __global__ void registers(unsigned *out) {
  unsigned lane, below;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
  asm("mov.u32 %0, %lanemask_lt;" : "=r"(below));
  asm volatile("bar.sync 0;" ::: "memory");
  out[threadIdx.x * 2] = lane;
  out[threadIdx.x * 2 + 1] = below;
}
__device__ int sum_of(cg::thread_group g, int *room, int v) {
  int rank = g.thread_rank();
  for (int i = g.size() / 2; i > 0; i /= 2) {
    room[rank] = v;
    g.sync();
    if (rank < i) v += room[rank + i];
    g.sync();
  }
  return v;
}
extern "C" __global__ void any_group(const int *in, int *out) {
  __shared__ int room[64];
  cg::thread_block block = cg::this_thread_block();
  int t = block.thread_rank(), all = sum_of(block, room, in[t]);
  cg::thread_group tile = cg::tiled_partition(block, 16);
  int part = sum_of(tile, room + t / 16 * 16, in[t]);
  if (t == 0) out[4] = all;
  if (t % 16 == 0) out[t / 16] = part;
}
extern "C" __global__ void wide_shuffle(const double4 *in, double4 *out) {
  auto tile = cg::tiled_partition<8>(cg::this_thread_block());
  out[threadIdx.x] = tile.shfl_xor(in[threadIdx.x], 5);
}
