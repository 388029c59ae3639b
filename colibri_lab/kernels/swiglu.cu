// swiglu: h = silu(gate) * up, and gate, up and SiLU of each row's expert in one kernel.
//
//   silu_mul:  gate [N, I], up [N, I] storage -> h [N, I] storage
//   fused_swiglu:  x [T, H] storage, row_ids [N] int32, expert_offsets [E + 1], expert_slots [E] int32,
//     gate_weights, up_weights [slots, I, H] storage -> h [N, I] storage
//
// Fused, gate and up never leave registers, and a tile of x is read once for both.
//
//   silu_mul            a thread a value.   any grid and block: it strides.
//   fused_swiglu_naive  a thread a value of h.   grid (ceil(I / block), N).
//   fused_swiglu_tiled  TILE x TILE of h a block, through shared memory as expert_gemm_tiled.
//                       grid (ceil(I / TILE), tiles), block (TILE, TILE).
#include "common.cuh"
#ifndef TILE
#define TILE 16
#endif

extern "C" __global__ void silu_mul(const storage* gate, const storage* up, storage* h,
                                    int num_values) {
  int stride = gridDim.x * blockDim.x;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < num_values; i += stride)
    h[i] = store<storage>(silu(load(gate[i])) * load(up[i]));
}

extern "C" __global__ void fused_swiglu_naive(const storage* x, const int* row_ids,
                                              const int* expert_offsets, const int* expert_slots,
                                              const storage* gate_weights,
                                              const storage* up_weights, storage* h,
                                              int num_experts, int hidden_size,
                                              int intermediate_size) {
  int out = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
  if (out >= intermediate_size || row >= expert_offsets[num_experts]) return;
  int expert = 0;
  while (row >= expert_offsets[expert + 1]) ++expert;
  int slot = slot_of(expert_slots, expert);
  if (slot < 0) return;
  const storage* input = x + (size_t)row_ids[row] * hidden_size;
  size_t weight = ((size_t)slot * intermediate_size + out) * hidden_size;
  float gate = 0.0f, up = 0.0f;
  for (int i = 0; i < hidden_size; ++i) {
    float value = load(input[i]);
    gate += value * load(gate_weights[weight + i]);
    up += value * load(up_weights[weight + i]);
  }
  h[(size_t)row * intermediate_size + out] = store<storage>(silu(gate) * up);
}

extern "C" __global__ void fused_swiglu_tiled(const storage* x, const int* row_ids,
                                              const int* expert_offsets, const int* expert_slots,
                                              const storage* gate_weights,
                                              const storage* up_weights, storage* h,
                                              int num_experts, int hidden_size,
                                              int intermediate_size) {
  __shared__ float xs[TILE][TILE + 1], gs[TILE][TILE + 1], us[TILE][TILE + 1];
  RowTile tile = row_tile(expert_offsets, expert_slots, num_experts, TILE, blockIdx.y);
  if (tile.slot < 0) return;
  int row = tile.first + threadIdx.y, column = threadIdx.x;
  int out = blockIdx.x * TILE + threadIdx.x, stripe = blockIdx.x * TILE + threadIdx.y;
  bool has_row = threadIdx.y < tile.count, has_stripe = stripe < intermediate_size;
  const storage* input = x + (size_t)(has_row ? row_ids[row] : 0) * hidden_size;
  size_t weight = ((size_t)tile.slot * intermediate_size + stripe) * hidden_size;
  float gate = 0.0f, up = 0.0f;
  for (int start = 0; start < hidden_size; start += TILE) {
    int i = start + column;
    bool inside = i < hidden_size;
    xs[threadIdx.y][column] = has_row && inside ? load(input[i]) : 0.0f;
    gs[threadIdx.y][column] = has_stripe && inside ? load(gate_weights[weight + i]) : 0.0f;
    us[threadIdx.y][column] = has_stripe && inside ? load(up_weights[weight + i]) : 0.0f;
    __syncthreads();
    for (int k = 0; k < TILE; ++k) {
      gate += xs[threadIdx.y][k] * gs[threadIdx.x][k];
      up += xs[threadIdx.y][k] * us[threadIdx.x][k];
    }
    __syncthreads();
  }
  if (has_row && out < intermediate_size)
    h[(size_t)row * intermediate_size + out] = store<storage>(silu(gate) * up);
}
