// route_fused: router product, top-k and weights in one kernel, without logits in memory.
//
//   hidden_states [T, H] storage, router [H, E] storage -> topk_ids [T, K] int32,
//   topk_weights [T, K] float32; as route_topk has them.
//
// A block a token. Its hidden states go to shared memory once; then each thread sums up the logits
// of its experts, neighbours reading neighbouring columns of the router, and the first warp
// chooses from shared memory.   grid T, block a multiple of 32; shared memory 4 * (H + E) bytes.
// Limits: 1 <= K <= min(E, 32).
#include "topk.cuh"

extern "C" __global__ void route_fused(const storage* hidden_states, const storage* router,
                                       int* topk_ids, float* topk_weights, int num_tokens,
                                       int hidden_size, int num_experts, int top_k,
                                       int renormalize) {
  extern __shared__ float shared[];
  float* hidden = shared;                // [H]
  float* logits = shared + hidden_size;  // [E]
  int token = blockIdx.x, lane = threadIdx.x;
  for (int i = threadIdx.x; i < hidden_size; i += blockDim.x)
    hidden[i] = load(hidden_states[(size_t)token * hidden_size + i]);
  __syncthreads();
  for (int expert = threadIdx.x; expert < num_experts; expert += blockDim.x) {
    float sum = 0.0f;
    for (int i = 0; i < hidden_size; ++i)
      sum += hidden[i] * load(router[(size_t)i * num_experts + expert]);
    logits[expert] = sum;
  }
  __syncthreads();
  if (threadIdx.x >= WARP) return;
  Choice kept = warp_topk(logits, lane, num_experts, top_k);
  write_choices(logits, kept, token, lane, num_experts, top_k, renormalize, topk_ids, topk_weights);
}
