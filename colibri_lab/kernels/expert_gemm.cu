// expert_gemm: each row times the matrix of its expert; rows are sorted by expert.
//
//   x [T, D] storage, row_ids [N] int32, expert_offsets [E + 1], expert_slots [E] int32,
//   weights [slots, O, D] storage
//   -> y [N, O] storage:   y[r] = weights[expert of r] . x[row_ids[r]]
//
// row_ids gathers: row r of the result is of row row_ids[r] of x (null: of row r). Sums are float32.
//
//   _naive   a thread an output: every weight is read once for each row.
//            grid (ceil(O / block), N).
//   _tiled   TILE x TILE outputs a block; both operands go through shared memory, so a weight is
//            read once for TILE rows.   grid (ceil(O / TILE), tiles), block (TILE, TILE).
//   _wmma    16 x 16 outputs a warp on tensor cores; float16 storage alone, D a multiple of 16.
//            grid (ceil(O / 16), tiles), block 32; compute capability 7.0 or later.
// tiles: at least sum over experts of ceil(rows / tile rows); more do nothing.
#include "common.cuh"
#ifndef TILE
#define TILE 16
#endif

extern "C" __global__ void expert_gemm_naive(const storage* x, const int* row_ids,
                                             const int* expert_offsets, const int* expert_slots, const storage* weights,
                                             storage* y, int num_experts, int inner, int outer) {
  int out = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
  if (out >= outer || row >= expert_offsets[num_experts]) return;
  int expert = 0;
  while (row >= expert_offsets[expert + 1]) ++expert;
  int slot = slot_of(expert_slots, expert);
  if (slot < 0) return;
  const storage* input = x + (size_t)(row_ids ? row_ids[row] : row) * inner;
  const storage* weight = weights + ((size_t)slot * outer + out) * inner;
  float sum = 0.0f;
  for (int i = 0; i < inner; ++i) sum += load(input[i]) * load(weight[i]);
  y[(size_t)row * outer + out] = store<storage>(sum);
}

extern "C" __global__ void expert_gemm_tiled(const storage* x, const int* row_ids,
                                             const int* expert_offsets, const int* expert_slots, const storage* weights,
                                             storage* y, int num_experts, int inner, int outer) {
  __shared__ float xs[TILE][TILE + 1], ws[TILE][TILE + 1];  // one more: no bank conflicts
  RowTile tile = row_tile(expert_offsets, expert_slots, num_experts, TILE, blockIdx.y);
  if (tile.slot < 0) return;  // all of the block
  int row = tile.first + threadIdx.y, column = threadIdx.x;
  int out = blockIdx.x * TILE + threadIdx.x, stripe = blockIdx.x * TILE + threadIdx.y;
  bool has_row = threadIdx.y < tile.count;
  const storage* input = x + (size_t)(has_row ? (row_ids ? row_ids[row] : row) : 0) * inner;
  const storage* weight = weights + ((size_t)tile.slot * outer + stripe) * inner;
  float sum = 0.0f;
  for (int start = 0; start < inner; start += TILE) {
    int i = start + column;
    xs[threadIdx.y][column] = has_row && i < inner ? load(input[i]) : 0.0f;
    ws[threadIdx.y][column] = stripe < outer && i < inner ? load(weight[i]) : 0.0f;
    __syncthreads();
    for (int k = 0; k < TILE; ++k) sum += xs[threadIdx.y][k] * ws[threadIdx.x][k];
    __syncthreads();
  }
  if (has_row && out < outer) y[(size_t)row * outer + out] = store<storage>(sum);
}

#ifdef TENSOR_CORES
#include <mma.h>

extern "C" __global__ void expert_gemm_wmma(const half* x, const int* row_ids,
                                            const int* expert_offsets, const int* expert_slots, const half* weights,
                                            half* y, int num_experts, int inner, int outer) {
  using namespace nvcuda;
  __shared__ half xs[16 * 16], ws[16 * 16];
  __shared__ float ys[16 * 16];
  RowTile tile = row_tile(expert_offsets, expert_slots, num_experts, 16, blockIdx.y);
  if (tile.slot < 0) return;
  int first_out = blockIdx.x * 16;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums;
  wmma::fill_fragment(sums, 0.0f);
  for (int start = 0; start < inner; start += 16) {
    for (int i = threadIdx.x; i < 256; i += WARP) {
      int line = i / 16, column = start + i % 16, row = tile.first + line, out = first_out + line;
      bool has_row = line < tile.count;
      size_t source = has_row ? (row_ids ? row_ids[row] : row) : 0;
      xs[i] = has_row ? x[source * inner + column] : __float2half(0.0f);
      ws[i] = out < outer ? weights[((size_t)tile.slot * outer + out) * inner + column]
                          : __float2half(0.0f);
    }
    __syncwarp();
    wmma::load_matrix_sync(a, xs, 16);
    wmma::load_matrix_sync(b, ws, 16);
    wmma::mma_sync(sums, a, b, sums);
    __syncwarp();
  }
  wmma::store_matrix_sync(ys, sums, 16, wmma::mem_row_major);
  __syncwarp();
  for (int i = threadIdx.x; i < 256; i += WARP) {
    int line = i / 16, out = first_out + i % 16;
    if (line < tile.count && out < outer)
      y[(size_t)(tile.first + line) * outer + out] = __float2half(ys[i]);
  }
}
#endif
