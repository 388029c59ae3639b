// dispatch: assignments sorted by expert, so that each expert sees its tokens together.
//
//   topk_ids [T, K] int32, -1 where dropped -> expert_counts [E], expert_offsets [E + 1],
//   sorted_token_ids [T * K], sorted_slots [T * K], all int32
//
// Three kernels in turn. Only the first expert_offsets[E] places of the sorted arrays are written.
//
//   dispatch_count         counts in shared memory, then one atomic an expert and block.
//                          expert_counts must be 0.   any grid and block; shared memory 4 * E bytes.
//   dispatch_scan          exclusive sums by one block.   grid 1, block 1024 >= E;
//                          shared memory 4 * block bytes.
//   dispatch_scatter_stable  a block an expert: it walks over all assignments, a block's width at a
//                          time, and places its own by ballot and prefix: in token order.
//                          grid E, block a multiple of 32; shared memory 4 * (block / 32 + 1) bytes.
//   dispatch_scatter_atomic  a thread an assignment: the next free place by atomicAdd, in any order.
//                          expert_counts must be 0, and is counted up again.   grid T * K / block.
#include "common.cuh"

extern "C" __global__ void dispatch_count(const int* topk_ids, int* expert_counts,
                                          int num_assignments, int num_experts) {
  extern __shared__ int counts[];  // [E]
  for (int expert = threadIdx.x; expert < num_experts; expert += blockDim.x) counts[expert] = 0;
  __syncthreads();
  int stride = gridDim.x * blockDim.x;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < num_assignments; i += stride)
    if (topk_ids[i] >= 0) atomicAdd(&counts[topk_ids[i]], 1);
  __syncthreads();
  for (int expert = threadIdx.x; expert < num_experts; expert += blockDim.x)
    if (counts[expert] > 0) atomicAdd(&expert_counts[expert], counts[expert]);
}

extern "C" __global__ void dispatch_scan(const int* expert_counts, int* expert_offsets,
                                         int num_experts) {
  extern __shared__ int sums[];  // [block]
  int expert = threadIdx.x;
  sums[expert] = expert < num_experts ? expert_counts[expert] : 0;
  __syncthreads();
  for (int offset = 1; offset < blockDim.x; offset *= 2) {
    int before = expert >= offset ? sums[expert - offset] : 0;
    __syncthreads();
    sums[expert] += before;
    __syncthreads();
  }
  if (expert < num_experts) expert_offsets[expert + 1] = sums[expert];
  if (expert == 0) expert_offsets[0] = 0;
}

extern "C" __global__ void dispatch_scatter_stable(const int* topk_ids, const int* expert_offsets,
                                                   int* sorted_token_ids, int* sorted_slots,
                                                   int num_assignments, int top_k) {
  extern __shared__ int warp_counts[];  // [warps + 1], the last is the row that comes next
  int expert = blockIdx.x, lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  int warps = blockDim.x / WARP;
  if (threadIdx.x == 0) warp_counts[warps] = expert_offsets[expert];
  for (int start = 0; start < num_assignments; start += blockDim.x) {
    int i = start + threadIdx.x;
    bool mine = i < num_assignments && topk_ids[i] == expert;
    unsigned votes = __ballot_sync(ALL_LANES, mine);
    if (lane == 0) warp_counts[warp] = __popc(votes);
    __syncthreads();
    int row = warp_counts[warps] + __popc(votes & ((1u << lane) - 1));
    int total = 0;
    for (int other = 0; other < warps; ++other) {
      if (other < warp) row += warp_counts[other];
      total += warp_counts[other];
    }
    if (mine) {
      sorted_token_ids[row] = i / top_k;
      sorted_slots[row] = i % top_k;
    }
    __syncthreads();
    if (threadIdx.x == 0) warp_counts[warps] += total;
  }
}

extern "C" __global__ void dispatch_scatter_atomic(const int* topk_ids, const int* expert_offsets,
                                                   int* expert_counts, int* sorted_token_ids,
                                                   int* sorted_slots, int num_assignments,
                                                   int top_k) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= num_assignments || topk_ids[i] < 0) return;
  int expert = topk_ids[i];
  int row = expert_offsets[expert] + atomicAdd(&expert_counts[expert], 1);
  sorted_token_ids[row] = i / top_k;
  sorted_slots[row] = i % top_k;
}
