// The K best of a token's logits by one warp, and their weights: shared by the route kernels.
//
// The best first; ties, and logits that are no number, go to the lower expert id (no number ranks as
// minus infinity).
//
// LOGIT is what logits are compared in: float, or double where they were summed so.
#pragma once
#include "common.cuh"
#ifndef LOGIT
#define LOGIT float
#endif
typedef LOGIT logit;

struct Choice {
  logit value;
  int expert;
};

__device__ __forceinline__ logit rank_of(logit value) {
  return isnan(value) ? NEGATIVE_INFINITY : value;
}

// Whether a is to be chosen before b.
__device__ __forceinline__ bool before(Choice a, Choice b) {
  return a.value > b.value || (a.value == b.value && a.expert < b.expert);
}

__device__ __forceinline__ Choice warp_best(Choice mine) {
  for (int offset = WARP / 2; offset > 0; offset /= 2) {
    Choice other = {__shfl_xor_sync(ALL_LANES, mine.value, offset),
                    __shfl_xor_sync(ALL_LANES, mine.expert, offset)};
    if (before(other, mine)) mine = other;
  }
  return mine;
}

// The best of logits[first, first + step, ...) that comes after `last` was chosen.
__device__ __forceinline__ Choice best_after(const logit* logits, int first, int end, int step,
                                             Choice last) {
  Choice best = {NEGATIVE_INFINITY, end};
  for (int expert = first; expert < end; expert += step) {
    Choice one = {rank_of(logits[expert]), expert};
    if (before(last, one) && before(one, best)) best = one;
  }
  return best;
}

#define FIRST_CHOICE {__int_as_float(0x7f800000), -1}

// exp(logit - peak) over the sum; lanes hold a choice each, the others contribute nothing.
__device__ __forceinline__ float softmax_weight(const logit* logits, int num_experts, logit chosen,
                                                bool valid, logit peak, int lane, int all) {
  float part = 0.0f;
  if (all)
    for (int expert = lane; expert < num_experts; expert += WARP) part += expf((float)(logits[expert] - peak));
  else if (valid)
    part = expf((float)(chosen - peak));
  return expf((float)(chosen - peak)) / warp_sum(part);
}

// Lane `slot` gets choice `slot`, for K up to 32; logits may be in global or shared memory.
__device__ __forceinline__ Choice warp_topk(const logit* logits, int lane, int num_experts,
                                            int top_k) {
  Choice last = FIRST_CHOICE, kept = FIRST_CHOICE;
  for (int slot = 0; slot < top_k; ++slot) {
    last = warp_best(best_after(logits, lane, num_experts, WARP, last));
    if (lane == slot) kept = last;
  }
  return kept;
}

// What warp_topk found, written by all lanes together.
__device__ __forceinline__ void write_choices(const logit* logits, Choice kept, int token, int lane,
                                              int num_experts, int top_k, int renormalize,
                                              int* topk_ids, float* topk_weights) {
  bool valid = lane < top_k;
  logit chosen = valid ? logits[kept.expert] : 0;
  logit peak = __shfl_sync(ALL_LANES, chosen, 0);
  float weight =
      softmax_weight(logits, num_experts, chosen, valid, peak, lane, !renormalize);
  if (valid) {
    topk_ids[token * top_k + lane] = kept.expert;
    topk_weights[token * top_k + lane] = weight;
  }
}
