// Cooperative groups: blocks, tiles of a warp, lanes that happen to run together.
#pragma once
#include "cuda_runtime.h"

extern "C++" {
namespace cooperative_groups {

namespace details {
template <class Result, class Compute> SIMT_FN Result broadcast_of(unsigned mask, Compute compute) {
  Result value = {};
  uint32_t leader = (uint32_t)__builtin_ctz(mask);
  if (simt::lane() == leader) value = compute();
  return simt::shuffle(mask, value, leader, "cooperative_groups::invoke_one_broadcast");
}
SIMT_FN uint32_t below(unsigned mask) {
  return (uint32_t)__builtin_popcount(mask & ((1u << simt::lane()) - 1));
}
// The lane that has this rank in a mask.
SIMT_FN uint32_t lane_of(unsigned mask, uint32_t rank) {
  for (; rank; rank--) mask &= mask - 1;
  return mask ? (uint32_t)__builtin_ctz(mask) : 32;
}
}  // namespace details

class thread_block {
 public:
  static constexpr unsigned _group_id = 1;
  SIMT_FN void sync() { __syncthreads(); }
  SIMT_FN void barrier_wait() {}
  SIMT_FN unsigned size() { dim3 n = simt::block_dim(); return n.x * n.y * n.z; }
  SIMT_FN unsigned num_threads() { return size(); }
  SIMT_FN unsigned thread_rank() { return simt::linear_thread(); }
  SIMT_FN dim3 group_index() { return simt::block_idx(); }
  SIMT_FN dim3 thread_index() { return simt::thread_idx(); }
  SIMT_FN dim3 group_dim() { return simt::block_dim(); }
  SIMT_FN dim3 dim_threads() { return simt::block_dim(); }
};
SIMT_FN thread_block this_thread_block() { return {}; }

class grid_group {
 public:
  SIMT_FN bool is_valid() { return num_blocks() == 1; }
  SIMT_FN void sync() {
    if (num_blocks() != 1) simt_refuse("grid.sync() over several blocks needs a cooperative launch");
    __syncthreads();
  }
  SIMT_FN unsigned long long num_blocks() {
    dim3 n = simt::grid_dim();
    return (unsigned long long)n.x * n.y * n.z;
  }
  SIMT_FN unsigned long long block_rank() {
    dim3 n = simt::grid_dim();
    uint3 at = simt::block_idx();
    return ((unsigned long long)at.z * n.y + at.y) * n.x + at.x;
  }
  SIMT_FN unsigned long long size() { return num_blocks() * thread_block::size(); }
  SIMT_FN unsigned long long num_threads() { return size(); }
  SIMT_FN unsigned long long thread_rank() {
    return block_rank() * thread_block::size() + thread_block::thread_rank();
  }
  SIMT_FN dim3 group_dim() { return simt::grid_dim(); }
  SIMT_FN dim3 dim_blocks() { return simt::grid_dim(); }
  SIMT_FN dim3 block_index() { return simt::block_idx(); }
};
SIMT_FN grid_group this_grid() { return {}; }

// Lanes of one warp, by mask; ranks count the mask's lanes.
class coalesced_group {
 public:
  explicit coalesced_group(unsigned lanes) : mask(lanes) {}
  void sync() const { __syncwarp(mask); }
  unsigned size() const { return (unsigned)__builtin_popcount(mask); }
  unsigned num_threads() const { return size(); }
  unsigned thread_rank() const { return details::below(mask); }
  unsigned meta_group_size() const { return 1; }
  unsigned meta_group_rank() const { return 0; }
  template <class T> T shfl(T v, int rank) const {
    return simt::shuffle(mask, v, details::lane_of(mask, (uint32_t)rank), "coalesced_group::shfl");
  }
  template <class T> T shfl_up(T v, unsigned delta) const {
    unsigned me = thread_rank();
    return shfl(v, (int)(me >= delta ? me - delta : me));
  }
  template <class T> T shfl_down(T v, unsigned delta) const {
    unsigned me = thread_rank();
    return shfl(v, (int)(me + delta < size() ? me + delta : me));
  }
  int any(int p) const { return __any_sync(mask, p); }
  int all(int p) const { return __all_sync(mask, p); }
  unsigned ballot(int p) const { return packed(__ballot_sync(mask, p)); }
  template <class T> unsigned match_any(T v) const { return packed(__match_any_sync(mask, v)); }
  template <class T> unsigned match_all(T v, int &p) const {
    return packed(__match_all_sync(mask, v, &p));
  }
  unsigned lanes() const { return mask; }

 private:
  // Bit r of the answer stands for the lane of rank r.
  unsigned packed(unsigned bits) const {
    unsigned out = 0, rank = 0;
    for (unsigned rest = mask; rest; rest &= rest - 1, rank++)
      out |= (bits >> __builtin_ctz(rest) & 1u) << rank;
    return out;
  }
  unsigned mask;
};
SIMT_FN coalesced_group coalesced_threads() { return coalesced_group(__activemask()); }

template <unsigned n, class Parent = void> class thread_block_tile {
  static_assert(n <= 32 && (n & (n - 1)) == 0, "a tile has 1, 2, 4, 8, 16 or 32 threads");

 public:
  thread_block_tile() = default;
  template <class Other> thread_block_tile(const thread_block_tile<n, Other> &) {}
  unsigned lanes() const {
    unsigned all = n == 32 ? 0xffffffffu : (1u << (n & 31)) - 1;
    return all << (simt::lane() & ~(n - 1u));
  }
  void sync() const { __syncwarp(lanes()); }
  static constexpr unsigned size() { return n; }
  static constexpr unsigned num_threads() { return n; }
  unsigned thread_rank() const { return simt::linear_thread() & (n - 1); }
  unsigned meta_group_rank() const { return simt::linear_thread() / n; }
  unsigned meta_group_size() const { return (thread_block::size() + n - 1) / n; }
  template <class T> T shfl(T v, int rank) const { return __shfl_sync(lanes(), v, rank, n); }
  template <class T> T shfl_up(T v, unsigned d) const { return __shfl_up_sync(lanes(), v, d, n); }
  template <class T> T shfl_down(T v, unsigned d) const {
    return __shfl_down_sync(lanes(), v, d, n);
  }
  template <class T> T shfl_xor(T v, unsigned bits) const {
    return __shfl_xor_sync(lanes(), v, (int)bits, n);
  }
  int any(int p) const { return __any_sync(lanes(), p); }
  int all(int p) const { return __all_sync(lanes(), p); }
  unsigned ballot(int p) const { return __ballot_sync(lanes(), p) >> shift(); }
  template <class T> unsigned match_any(T v) const { return __match_any_sync(lanes(), v) >> shift(); }
  template <class T> unsigned match_all(T v, int &p) const {
    return __match_all_sync(lanes(), v, &p) >> shift();
  }

 private:
  unsigned shift() const { return simt::lane() & ~(n - 1u); }
};

template <unsigned n, class Parent> SIMT_FN thread_block_tile<n, Parent> tiled_partition(const Parent &) {
  return {};
}
SIMT_FN coalesced_group tiled_partition(const thread_block &, unsigned n) {
  unsigned all = n >= 32 ? 0xffffffffu : (1u << n) - 1;
  return coalesced_group(all << (simt::lane() & ~(n - 1u)));
}
// The lanes of a group that give the same label, or the same answer.
template <class Group, class Label> SIMT_FN coalesced_group labeled_partition(const Group &g, Label label) {
  return coalesced_group(__match_any_sync(g.lanes(), label));
}
template <class Group> SIMT_FN coalesced_group binary_partition(const Group &g, bool p) {
  return coalesced_group(__match_any_sync(g.lanes(), (int)p));
}

// Any of the above, by what it can do.
class thread_group {
 public:
  thread_group(const thread_block &) : mask(0) {}
  thread_group(const coalesced_group &g) : mask(g.lanes()) {}
  template <unsigned n, class P> thread_group(const thread_block_tile<n, P> &g) : mask(g.lanes()) {}
  void sync() const {
    if (mask) __syncwarp(mask);
    else __syncthreads();
  }
  unsigned size() const { return mask ? (unsigned)__builtin_popcount(mask) : thread_block::size(); }
  unsigned num_threads() const { return size(); }
  unsigned thread_rank() const {
    return mask ? details::below(mask) : thread_block::thread_rank();
  }

 private:
  unsigned mask;  // of lanes; 0: the whole block
};
SIMT_FN thread_group tiled_partition(const thread_group &g, unsigned n) {
  unsigned first = g.thread_rank() & ~(n - 1u), all = n >= 32 ? 0xffffffffu : (1u << n) - 1;
  unsigned lane = simt::lane() - (g.thread_rank() - first);
  return thread_group(coalesced_group(all << (lane & 31)));
}

template <class Group> SIMT_FN void sync(const Group &g) { g.sync(); }
SIMT_FN void sync(const thread_block &g) { g.sync(); }
SIMT_FN void sync(grid_group g) { g.sync(); }
template <class Group> SIMT_FN auto thread_rank(const Group &g) { return g.thread_rank(); }
template <class Group> SIMT_FN auto group_size(const Group &g) { return g.size(); }
template <class Group, class F> SIMT_FN void invoke_one(const Group &g, F f) {
  if (g.thread_rank() == 0) f();
}
template <class Group, class F> SIMT_FN auto invoke_one_broadcast(const Group &g, F f) {
  return details::broadcast_of<decltype(f())>(g.lanes(), f);
}
}  // namespace cooperative_groups
}
