// What comes with the CUDA toolkit as headers: CUB's collectives, pipelines, complex numbers.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cub/cub.cuh>
#include <cuda/atomic>
#include <cuda/functional>
#include <cuComplex.h>
#include <cuda_pipeline.h>
namespace cg = cooperative_groups;

template <int threads> __global__ void collectives(const int *in, int *out) {
  using Reduce = cub::BlockReduce<int, threads>;
  using Scan = cub::BlockScan<int, threads>;
  using Warp = cub::WarpReduce<int, 8>;
  __shared__ union {
    typename Reduce::TempStorage reduce;
    typename Scan::TempStorage scan;
    typename Warp::TempStorage warp[threads / 8];
  } room;
  int t = threadIdx.x, v = in[t], before, up_to, total;
  int sum = Reduce(room.reduce).Sum(v);
  __syncthreads();
  int most = Reduce(room.reduce).Reduce(v, cuda::maximum<>());
  __syncthreads();
  Scan(room.scan).ExclusiveSum(v, before, total);
  __syncthreads();
  Scan(room.scan).InclusiveScan(v, up_to, cuda::minimum<>());
  __syncthreads();
  int eight = Warp(room.warp[t / 8]).Sum(v);
  int *o = out + t * 6;
  o[0] = t ? 0 : sum; o[1] = t ? 0 : most; o[2] = before; o[3] = total; o[4] = up_to;
  o[5] = t % 8 ? 0 : eight;
}
template __global__ void collectives<96>(const int *, int *);

extern "C" {
__global__ void copies(const float4 *in, float *out) {
  __shared__ float4 first[32], second[32];
  __pipeline_memcpy_async(&first[threadIdx.x], &in[threadIdx.x], sizeof(float4));
  __pipeline_commit();
  __pipeline_wait_prior(0);
  auto block = cg::this_thread_block();
  cg::memcpy_async(block, second, in, sizeof second);
  cg::wait(block);
  float4 a = first[31 - threadIdx.x], b = second[threadIdx.x];
  out[threadIdx.x] = a.x + b.w;
}
__global__ void complex(const cuFloatComplex *a, const cuFloatComplex *b, cuFloatComplex *out) {
  int t = threadIdx.x;
  out[t] = cuCaddf(cuCmulf(a[t], b[t]), cuConjf(cuCdivf(a[t], b[t])));
}
}
extern "C" __global__ void references(int *count, float *sum, int *turn) {
  cuda::atomic_ref<int, cuda::thread_scope_device> counter(*count), next(*turn);
  cuda::atomic_ref<float, cuda::thread_scope_device> total(*sum);
  int mine = counter.fetch_add(1, cuda::memory_order_relaxed);
  total.fetch_add(0.5f);
  while (next.load(cuda::memory_order_acquire) != mine) {}
  next.store(mine + 1, cuda::memory_order_release);
}
