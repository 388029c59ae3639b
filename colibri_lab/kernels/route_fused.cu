// route_fused: router product, top-k and weights in one kernel, without logits in memory.
//
//   hidden_states [T, H] float32, router [H, E] float32 -> topk_ids [T, K] int32,
//   topk_weights [T, K] float32, as route_topk has them; router_logits [T, E] float64, where asked
//   for (not null)
//
// A block a token. Its hidden states go to shared memory once; then each thread sums up the logits
// of its experts, neighbours reading neighbouring columns of the router, and the first warp
// chooses from shared memory. Sums are in float64, so that near-ties fall as in the reference.
//   grid T, block a multiple of 32; shared memory 8 * E + 4 * H bytes.
// Limits: 1 <= K <= min(E, 32).
#define LOGIT double
#include "topk.cuh"

extern "C" __global__ void route_fused(const float* hidden_states, const float* router,
                                       int* topk_ids, float* topk_weights,
                                       double* router_logits, int num_tokens, int hidden_size,
                                       int num_experts, int top_k, int renormalize) {
  extern __shared__ double shared[];
  double* logits = shared;                          // [E]
  float* hidden = (float*)(shared + num_experts);  // [H]
  int token = blockIdx.x, lane = threadIdx.x;
  for (int i = threadIdx.x; i < hidden_size; i += blockDim.x)
    hidden[i] = hidden_states[(size_t)token * hidden_size + i];
  __syncthreads();
  for (int expert = threadIdx.x; expert < num_experts; expert += blockDim.x) {
    double sum = 0.0;
    for (int i = 0; i < hidden_size; ++i)
      sum += (double)hidden[i] * router[(size_t)i * num_experts + expert];
    logits[expert] = sum;
    if (router_logits) router_logits[(size_t)token * num_experts + expert] = sum;
  }
  __syncthreads();
  if (threadIdx.x >= WARP) return;
  Choice kept = warp_topk(logits, lane, num_experts, top_k);
  write_choices(logits, kept, token, lane, num_experts, top_k, renormalize, topk_ids, topk_weights);
}
