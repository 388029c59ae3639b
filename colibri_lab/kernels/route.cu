// route_topk: the K best experts of each token, and their weights.
//
//   router_logits [T, E] float32 -> topk_ids [T, K] int32, topk_weights [T, K] float32
//
// The best first; ties, and logits that are no number, go to the lower expert id (no number ranks as
// minus infinity). Weights are a softmax over the K chosen (renormalize != 0), or their shares of
// the softmax over all E. Limits: 1 <= K <= min(E, 32); E <= 1024 in _block.
//
//   _naive  a thread a token: K passes over E, each looking for the best one left.
//           grid ceil(T / block), any block.
//   _warp   a warp a token: lanes look through E together, then agree by shuffles on the best.
//           grid ceil(T / warps), block 32 * warps.
//   _block  a block a token: each warp finds the K best of its part, leaves them in shared memory,
//           and the first warp merges them.   grid T, block 32 * warps, warps <= 32;
//           shared memory 8 * K * warps bytes.
#include "topk.cuh"

extern "C" __global__ void route_topk_naive(const float* router_logits, int* topk_ids,
                                            float* topk_weights, int num_tokens, int num_experts,
                                            int top_k, int renormalize) {
  int token = blockIdx.x * blockDim.x + threadIdx.x;
  if (token >= num_tokens) return;
  const float* logits = router_logits + (size_t)token * num_experts;
  Choice last = FIRST_CHOICE;
  float peak = 0.0f, sum = 0.0f;
  for (int slot = 0; slot < top_k; ++slot) {
    last = best_after(logits, 0, num_experts, 1, last);
    if (slot == 0) peak = logits[last.expert];
    topk_ids[token * top_k + slot] = last.expert;
    topk_weights[token * top_k + slot] = expf(logits[last.expert] - peak);
    sum += expf(logits[last.expert] - peak);
  }
  if (!renormalize) {
    sum = 0.0f;
    for (int expert = 0; expert < num_experts; ++expert) sum += expf(logits[expert] - peak);
  }
  for (int slot = 0; slot < top_k; ++slot) topk_weights[token * top_k + slot] /= sum;
}

extern "C" __global__ void route_topk_warp(const float* router_logits, int* topk_ids,
                                           float* topk_weights, int num_tokens, int num_experts,
                                           int top_k, int renormalize) {
  int lane = threadIdx.x % WARP;
  int token = blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP;
  if (token >= num_tokens) return;  // a whole warp leaves
  const float* logits = router_logits + (size_t)token * num_experts;
  Choice kept = warp_topk(logits, lane, num_experts, top_k);
  write_choices(logits, kept, token, lane, num_experts, top_k, renormalize, topk_ids, topk_weights);
}

extern "C" __global__ void route_topk_block(const float* router_logits, int* topk_ids,
                                            float* topk_weights, int num_tokens, int num_experts,
                                            int top_k, int renormalize) {
  extern __shared__ Choice partial[];  // [warps, K]
  int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
  int token = blockIdx.x;
  const float* logits = router_logits + (size_t)token * num_experts;
  Choice last = FIRST_CHOICE;
  for (int slot = 0; slot < top_k; ++slot) {
    Choice mine = best_after(logits, warp * WARP + lane, num_experts, blockDim.x, last);
    last = warp_best(mine);
    if (lane == 0) partial[warp * top_k + slot] = last;
  }
  __syncthreads();
  if (warp > 0) return;
  last = FIRST_CHOICE;
  Choice kept = FIRST_CHOICE;
  for (int slot = 0; slot < top_k; ++slot) {
    Choice best = {NEGATIVE_INFINITY, num_experts};
    for (int index = lane; index < warps * top_k; index += WARP) {
      Choice one = partial[index];
      if (one.expert < num_experts && before(last, one) && before(one, best)) best = one;
    }
    last = warp_best(best);
    if (lane == slot) kept = last;
  }
  write_choices(logits, kept, token, lane, num_experts, top_k, renormalize, topk_ids, topk_weights);
}
