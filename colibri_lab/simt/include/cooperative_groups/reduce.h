// cooperative_groups::reduce.
#pragma once
#include "../cooperative_groups.h"
#include "functors.h"

extern "C++" {
namespace cooperative_groups {

// By steps of doubling reach, as the hardware's own library does it.
template <class Group, class T, class Op> SIMT_FN T reduce(const Group &g, T v, Op op) {
  unsigned rank = g.thread_rank(), n = g.size();
  for (unsigned reach = 1; reach < n; reach *= 2) {
    T other = g.shfl_down(v, reach);
    if (rank + reach < n && rank % (2 * reach) == 0) v = op(v, other);
  }
  return g.shfl(v, 0);
}
}  // namespace cooperative_groups
}
