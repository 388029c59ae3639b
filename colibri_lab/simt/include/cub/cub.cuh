// The collectives of CUB that kernels use most: reductions and scans over a block or a warp. The
// threads leave their values in shared memory, and each takes what it needs from there, in order.
#pragma once
#include "../cuda_runtime.h"

extern "C++" {
namespace cub {

struct Sum {
  template <class T> T operator()(const T &a, const T &b) const { return a + b; }
};
struct Max {
  template <class T> T operator()(const T &a, const T &b) const { return a < b ? b : a; }
};
struct Min {
  template <class T> T operator()(const T &a, const T &b) const { return b < a ? b : a; }
};
template <class K, class V> struct KeyValuePair {
  K key;
  V value;
  bool operator!=(const KeyValuePair &o) const { return key != o.key || value != o.value; }
};
// Of equal values, the one of the least key.
struct ArgMax {
  template <class K, class V>
  KeyValuePair<K, V> operator()(const KeyValuePair<K, V> &a, const KeyValuePair<K, V> &b) const {
    return b.value > a.value || (a.value == b.value && b.key < a.key) ? b : a;
  }
};
struct ArgMin {
  template <class K, class V>
  KeyValuePair<K, V> operator()(const KeyValuePair<K, V> &a, const KeyValuePair<K, V> &b) const {
    return b.value < a.value || (a.value == b.value && b.key < a.key) ? b : a;
  }
};
enum BlockReduceAlgorithm {
  BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY, BLOCK_REDUCE_RAKING, BLOCK_REDUCE_WARP_REDUCTIONS
};
enum BlockScanAlgorithm { BLOCK_SCAN_RAKING, BLOCK_SCAN_RAKING_MEMOIZE, BLOCK_SCAN_WARP_SCANS };

namespace details {
// Values of `count` threads side by side, `rank` being this one's.
template <class T, int n> struct Room {
  T values[n];
};
template <class T, class Op> SIMT_FN T fold(const T *values, int count, Op op) {
  T sum = values[0];
  for (int i = 1; i < count; i++) sum = op(sum, values[i]);
  return sum;
}
SIMT_FN int rank_in_block() { return (int)simt::linear_thread(); }
template <class T, class Op, int n> SIMT_FN T fold_items(T (&items)[n], Op op) {
  return fold(items, n, op);
}
}  // namespace details

template <class T, int dim_x, BlockReduceAlgorithm = BLOCK_REDUCE_WARP_REDUCTIONS, int dim_y = 1,
          int dim_z = 1, int = 0>
class BlockReduce {
  static constexpr int n = dim_x * dim_y * dim_z;

 public:
  using TempStorage = details::Room<T, n>;
  explicit BlockReduce(TempStorage &storage) : room(storage) {}
  // The result is thread 0's; the others have a partial one, as with CUB itself.
  template <class Op> T Reduce(const T &value, Op op, int count = n) {
    int rank = details::rank_in_block();
    room.values[rank] = value;
    __syncthreads();
    return rank == 0 ? details::fold(room.values, count, op) : value;
  }
  template <class Op, int items> T Reduce(T (&values)[items], Op op) {
    return Reduce(details::fold_items(values, op), op);
  }
  template <class V> T Sum(V &&value) { return Reduce(value, cub::Sum()); }
  T Sum(const T &value, int count) { return Reduce(value, cub::Sum(), count); }

 private:
  TempStorage &room;
};

template <class T, int dim_x, BlockScanAlgorithm = BLOCK_SCAN_RAKING, int dim_y = 1, int dim_z = 1,
          int = 0>
class BlockScan {
  static constexpr int n = dim_x * dim_y * dim_z;

 public:
  using TempStorage = details::Room<T, n>;
  explicit BlockScan(TempStorage &storage) : room(storage) {}
  template <class Op> void InclusiveScan(T input, T &output, Op op, T &aggregate) {
    share(input);
    int rank = details::rank_in_block();
    output = details::fold(room.values, rank + 1, op);
    aggregate = details::fold(room.values, n, op);
  }
  template <class Op> void InclusiveScan(T input, T &output, Op op) {
    share(input);
    output = details::fold(room.values, details::rank_in_block() + 1, op);
  }
  template <class Op> void ExclusiveScan(T input, T &output, T initial, Op op) {
    share(input);
    int rank = details::rank_in_block();
    output = rank ? op(initial, details::fold(room.values, rank, op)) : initial;
  }
  template <class Op> void ExclusiveScan(T input, T &output, T initial, Op op, T &aggregate) {
    ExclusiveScan(input, output, initial, op);
    aggregate = details::fold(room.values, n, op);
  }
  void InclusiveSum(T input, T &output) { InclusiveScan(input, output, Sum()); }
  void InclusiveSum(T input, T &output, T &sum) { InclusiveScan(input, output, Sum(), sum); }
  void ExclusiveSum(T input, T &output) { ExclusiveScan(input, output, T(), Sum()); }
  void ExclusiveSum(T input, T &output, T &sum) { ExclusiveScan(input, output, T(), Sum(), sum); }

 private:
  void share(T input) {
    room.values[details::rank_in_block()] = input;
    __syncthreads();
  }
  TempStorage &room;
};

// Lanes in groups of `width`, which all run.
template <class T, int width = 32, int = 0> class WarpReduce {
 public:
  using TempStorage = details::Room<T, width>;
  explicit WarpReduce(TempStorage &storage) : room(storage) {}
  template <class Op> T Reduce(T value, Op op) {
    unsigned lane = simt::lane(), at = lane & (width - 1u);
    unsigned mask = width == 32 ? 0xffffffffu : ((1u << (width & 31)) - 1) << (lane - at);
    room.values[at] = value;
    __syncwarp(mask);
    T sum = at == 0 ? details::fold(room.values, width, op) : value;
    __syncwarp(mask);
    return sum;
  }
  T Sum(T value) { return Reduce(value, cub::Sum()); }

 private:
  TempStorage &room;
};
template <class T, int width = 32, int = 0> class WarpScan {
 public:
  using TempStorage = details::Room<T, width>;
  explicit WarpScan(TempStorage &storage) : room(storage) {}
  template <class Op> void InclusiveScan(T value, T &output, Op op) {
    output = details::fold(room.values, share(value) + 1, op);
    __syncwarp();
  }
  template <class Op> void ExclusiveScan(T value, T &output, T initial, Op op) {
    int at = share(value);
    output = at ? op(initial, details::fold(room.values, at, op)) : initial;
    __syncwarp();
  }
  void InclusiveSum(T value, T &output) { InclusiveScan(value, output, Sum()); }
  void ExclusiveSum(T value, T &output) { ExclusiveScan(value, output, T(), Sum()); }

 private:
  int share(T value) {
    int at = (int)(simt::lane() & (width - 1u));
    room.values[at] = value;
    __syncwarp();
    return at;
  }
  TempStorage &room;
};

}  // namespace cub
}
