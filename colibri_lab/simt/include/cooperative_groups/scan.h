// cooperative_groups::inclusive_scan and exclusive_scan.
#pragma once
#include "../cooperative_groups.h"
#include "functors.h"

extern "C++" {
namespace cooperative_groups {

template <class Group, class T, class Op> SIMT_FN T inclusive_scan(const Group &g, T v, Op op) {
  unsigned rank = g.thread_rank(), n = g.size();
  for (unsigned reach = 1; reach < n; reach *= 2) {
    T other = g.shfl_up(v, reach);
    if (rank >= reach) v = op(other, v);
  }
  return v;
}
template <class Group, class T> SIMT_FN T inclusive_scan(const Group &g, T v) {
  return inclusive_scan(g, v, plus<T>());
}
template <class Group, class T, class Op> SIMT_FN T exclusive_scan(const Group &g, T v, Op op) {
  T before = g.shfl_up(inclusive_scan(g, v, op), 1);
  return g.thread_rank() == 0 ? T() : before;
}
template <class Group, class T> SIMT_FN T exclusive_scan(const Group &g, T v) {
  return exclusive_scan(g, v, plus<T>());
}
}  // namespace cooperative_groups
}
