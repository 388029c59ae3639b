// What the kernels share: the storage type, warps, and which rows of a sorted batch a block has.
//
// A kernel is compiled for one storage type, -DSTORAGE=float or -DSTORAGE=half. Whatever is stored
// so is read into float32, and all sums are in float32.
#pragma once
#include <cuda_fp16.h>

#ifndef STORAGE
#define STORAGE float
#endif
typedef STORAGE storage;

#define WARP 32
#define ALL_LANES 0xffffffffu
#define NEGATIVE_INFINITY __int_as_float(0xff800000)

__device__ __forceinline__ float load(float value) { return value; }
__device__ __forceinline__ float load(half value) { return __half2float(value); }

template <typename T> __device__ __forceinline__ T store(float value);
template <> __device__ __forceinline__ float store<float>(float value) { return value; }
template <> __device__ __forceinline__ half store<half>(float value) { return __float2half(value); }

__device__ __forceinline__ int ceil_div(int a, int b) { return (a + b - 1) / b; }

__device__ __forceinline__ float warp_sum(float value) {
  for (int offset = WARP / 2; offset > 0; offset /= 2)
    value += __shfl_xor_sync(ALL_LANES, value, offset);
  return value;
}

__device__ __forceinline__ float warp_max(float value) {
  for (int offset = WARP / 2; offset > 0; offset /= 2)
    value = fmaxf(value, __shfl_xor_sync(ALL_LANES, value, offset));
  return value;
}

__device__ __forceinline__ float silu(float x) { return x / (1.0f + __expf(-x)); }

// A tile of one expert's rows. Rows are sorted by expert; no tile spans two experts.
struct RowTile {
  int expert;  // -1: there are fewer tiles than blocks
  int slot;    // where its weights are; -1: they are not there, and its rows are left alone
  int first;   // its first row
  int count;   // rows of it, at most tile_rows
};

// Where an expert's weights are: expert_slots [E], or null where slot and expert are the same.
__device__ __forceinline__ int slot_of(const int* expert_slots, int expert) {
  return expert_slots ? expert_slots[expert] : expert;
}

__device__ __forceinline__ RowTile find_tile(const int* expert_offsets, const int* expert_slots,
                                             int num_experts, int tile_rows, int tile) {
  for (int expert = 0; expert < num_experts; ++expert) {
    int first = expert_offsets[expert], rows = expert_offsets[expert + 1] - first;
    int tiles = ceil_div(rows, tile_rows);
    if (tile < tiles) {
      int begin = first + tile * tile_rows;
      return {expert, slot_of(expert_slots, expert), begin,
              min(tile_rows, first + rows - begin)};
    }
    tile -= tiles;
  }
  return {-1, -1, 0, 0};
}

// Which tile is this block's: experts have ceil(rows / tile_rows) tiles each, one after the other.
// One thread looks, and tells the others. All threads of the block must call it.
__device__ __forceinline__ RowTile row_tile(const int* expert_offsets, const int* expert_slots,
                                            int num_experts, int tile_rows, int tile) {
  __shared__ RowTile found;
  if (threadIdx.x == 0 && threadIdx.y == 0)
    found = find_tile(expert_offsets, expert_slots, num_experts, tile_rows, tile);
  __syncthreads();
  return found;
}
