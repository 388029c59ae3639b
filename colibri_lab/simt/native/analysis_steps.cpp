// The first requests of block 0, lane by lane, for whoever wants to follow a kernel step by step.
#include "analysis.h"

namespace analysis {

size_t steps_wanted = 0;

static bool is_wanted(const Block &block) {
  return steps_wanted && block.number == 0 && run->steps.size() < steps_wanted;
}

void keep_step(const Warp &warp, uint64_t key, uint32_t mask, const uint64_t *addresses,
               int segment) {
  if (!is_wanted(*warp.block)) return;
  Step step{pc_of(key), uint8_t(kind_of(key)), uint8_t(bytes_of(key)),
            uint8_t(segment < 2 ? SHARED : GLOBAL), warp.number, mask, 0, {}};
  uint64_t base = segment < 2 ? warp.block->shared_low[0] : 0;
  if (segment == 2) {
    const Tracked *at = locate(*warp.block->worker, addresses[__builtin_ctz(mask)], 1);
    if (at) base = at->base;
    if (at) step.buffer = at->id;
  }
  for (uint32_t m = mask; m; m &= m - 1)
    step.offsets[__builtin_ctz(m)] = addresses[__builtin_ctz(m)] - base;
  run->steps.push_back(step);
}

// All threads of the block have come to it.
void keep_barrier(const Block &block, uint32_t pc) {
  if (!is_wanted(block)) return;
  run->steps.push_back(Step{pc, WARP_BARRIER, 0, SHARED, 0, 0, 0, {}});
}

std::string steps_as_json(const std::vector<Step> &steps) {
  std::string out = "[";
  for (const Step &step : steps) {
    if (out.size() > 1) out += ",";
    out += "[" + std::to_string(step.pc) + "," + std::to_string(step.kind) + "," +
           std::to_string(step.bytes) + "," + std::to_string(step.space) + "," +
           std::to_string(step.warp) + "," + std::to_string(step.buffer) + ",{";
    bool is_first = true;
    for (uint32_t m = step.mask; m; m &= m - 1) {
      uint32_t lane = uint32_t(__builtin_ctz(m));
      out += (is_first ? "\"" : ",\"") + std::to_string(lane) +
             "\":" + std::to_string(step.offsets[lane]);
      is_first = false;
    }
    out += "}]";
  }
  return out + "]";
}

}  // namespace analysis

// How many requests of block 0 are kept in each kernel's first launch; 0: none.
SIMT_API void simt_analysis_steps(size_t wanted) { analysis::steps_wanted = wanted; }
