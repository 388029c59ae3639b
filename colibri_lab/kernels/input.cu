// seq_offsets: where each sequence of a batch begins among its packed tokens.
//
//   lengths [B] int32 -> offsets [B + 1] int32, exclusive sums.   grid 1, block 1024 >= B;
//   shared memory 4 * block bytes.
//
// pack_input: sequences that the caller keeps apart, one after the other.
//
//   padded [B, S, H] storage, offsets [B + 1] -> packed [offsets[B], H] storage
//   grid (S, B), any block.
#include "common.cuh"

extern "C" __global__ void seq_offsets(const int* lengths, int* offsets, int batch_size) {
  extern __shared__ int sums[];  // [block]
  int i = threadIdx.x;
  sums[i] = i < batch_size ? lengths[i] : 0;
  __syncthreads();
  for (int step = 1; step < blockDim.x; step *= 2) {
    int before = i >= step ? sums[i - step] : 0;
    __syncthreads();
    sums[i] += before;
    __syncthreads();
  }
  if (i < batch_size) offsets[i + 1] = sums[i];
  if (i == 0) offsets[0] = 0;
}

extern "C" __global__ void pack_input(const storage* padded, const int* offsets, storage* packed,
                                      int max_seq_len, int hidden_size) {
  int position = blockIdx.x, sequence = blockIdx.y;
  if (position >= offsets[sequence + 1] - offsets[sequence]) return;
  const storage* source = padded + ((size_t)sequence * max_seq_len + position) * hidden_size;
  storage* target = packed + (size_t)(offsets[sequence] + position) * hidden_size;
  for (int i = threadIdx.x; i < hidden_size; i += blockDim.x) target[i] = source[i];
}
