// fused_expert: gate, up, SiLU and down of each row's expert in one kernel.
//
//   x [T, H] storage, row_ids [N] int32, expert_offsets [E + 1], expert_slots [E] int32,
//   gate_weights, up_weights [slots, I, H], down_weights [slots, H, I] storage -> y [N, H] float32
//
// A block has TILE rows of one expert and a slice of TILE of the I intermediate values. It makes that
// slice of h in registers, keeps it in shared memory, multiplies it by its slice of the down matrix,
// and adds the part that this is of every output with atomicAdd: h is never in global memory, at the
// price of ceil(I / TILE) additions an output, in any order. y must be 0 before.
//   grid (ceil(I / TILE), tiles), block (TILE, TILE)
#include "common.cuh"
#ifndef TILE
#define TILE 16
#endif

extern "C" __global__ void fused_expert(const storage* x, const int* row_ids,
                                        const int* expert_offsets, const int* expert_slots, const storage* gate_weights,
                                        const storage* up_weights, const storage* down_weights,
                                        float* y, int num_experts, int hidden_size,
                                        int intermediate_size) {
  __shared__ float xs[TILE][TILE + 1], gs[TILE][TILE + 1], us[TILE][TILE + 1], hs[TILE][TILE + 1];
  RowTile tile = row_tile(expert_offsets, expert_slots, num_experts, TILE, blockIdx.y);
  if (tile.slot < 0) return;
  int row = tile.first + threadIdx.y, column = threadIdx.x;
  int slice = blockIdx.x * TILE, stripe = slice + threadIdx.y;
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
  hs[threadIdx.y][column] = slice + column < intermediate_size ? silu(gate) * up : 0.0f;

  for (int first = 0; first < hidden_size; first += TILE) {
    // us now has the down matrix: a row an output, a column an intermediate value of the slice.
    int line = first + threadIdx.y, inner = slice + column, out = first + column;
    bool inside = line < hidden_size && inner < intermediate_size;
    size_t down = ((size_t)tile.slot * hidden_size + line) * intermediate_size + inner;
    us[threadIdx.y][column] = inside ? load(down_weights[down]) : 0.0f;
    __syncthreads();
    float sum = 0.0f;
    for (int k = 0; k < TILE; ++k) sum += hs[threadIdx.y][k] * us[threadIdx.x][k];
    if (has_row && out < hidden_size) atomicAdd(&y[(size_t)row * hidden_size + out], sum);
    __syncthreads();
  }
}
