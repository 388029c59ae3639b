// aggregate: each token's weighted sum of what its experts gave.
//
//   y [N, H] storage, sorted_token_ids [N] int32, sorted_slots [N] int32, topk_weights [T, K] float32
//   -> output [T, H] float32
//
//   _atomic  a thread a value of y, added where it belongs with atomicAdd: any order, so sums differ
//            in their last bits from run to run. output must be 0 before.
//            grid (ceil(H / block), rows), rows >= N; it reads how many there are from num_rows [1].
//   _gather  a thread a value of the output, which looks up where its K rows are: slots in order, so
//            the same bits every time. row_of [T, K] int32, -1 where dropped.
//            grid (ceil(H / block), T).
//   invert   row_of from the sorted arrays; row_of must be -1 before.   a thread a row.
#include "common.cuh"

extern "C" __global__ void aggregate_atomic(const storage* y, const int* sorted_token_ids,
                                            const int* sorted_slots, const float* topk_weights,
                                            const int* num_rows, float* output, int hidden_size,
                                            int top_k) {
  int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
  if (column >= hidden_size || row >= *num_rows) return;
  int token = sorted_token_ids[row];
  float weight = topk_weights[token * top_k + sorted_slots[row]];
  atomicAdd(&output[(size_t)token * hidden_size + column],
            weight * load(y[(size_t)row * hidden_size + column]));
}

extern "C" __global__ void aggregate_invert(const int* sorted_token_ids, const int* sorted_slots,
                                            const int* num_rows, int* row_of, int top_k) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < *num_rows) row_of[sorted_token_ids[row] * top_k + sorted_slots[row]] = row;
}

extern "C" __global__ void aggregate_gather(const storage* y, const int* row_of,
                                            const float* topk_weights, float* output,
                                            int hidden_size, int top_k) {
  int column = blockIdx.x * blockDim.x + threadIdx.x, token = blockIdx.y;
  if (column >= hidden_size) return;
  float sum = 0.0f;
  for (int slot = 0; slot < top_k; ++slot) {
    int row = row_of[token * top_k + slot];
    if (row >= 0)
      sum += topk_weights[token * top_k + slot] * load(y[(size_t)row * hidden_size + column]);
  }
  output[(size_t)token * hidden_size + column] = sum;
}
