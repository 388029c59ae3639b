"""Blocks, barriers, shared memory, module variables: results against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.simt.grids import Module

I = np.int32  # noqa: E741

SOURCE = r"""
#include <stdio.h>
extern "C" {
__constant__ float coefficients[4];
__device__ int counter = 5;
__device__ double big[1000];

__global__ void sgemm(const float *A, const float *B, float *C, int n) {
  __shared__ float As[16][16], Bs[16][16];
  int r = blockIdx.y * 16 + threadIdx.y, c = blockIdx.x * 16 + threadIdx.x;
  float acc = 0.f;
  for (int t = 0; t < n; t += 16) {
    As[threadIdx.y][threadIdx.x] = A[r * n + t + threadIdx.x];
    Bs[threadIdx.y][threadIdx.x] = B[(t + threadIdx.y) * n + c];
    __syncthreads();
    for (int k = 0; k < 16; k++) acc += As[threadIdx.y][k] * Bs[k][threadIdx.x];
    __syncthreads();
  }
  C[r * n + c] = acc;
}
__global__ void places(unsigned *out) {
  unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  out[block * blockDim.x * blockDim.y * blockDim.z + thread] = block << 16 | thread;
}
__global__ void row_max(const float *x, float *out, int n) {
  extern __shared__ float scratch[];
  float best = -INFINITY;
  for (int i = threadIdx.x; i < n; i += blockDim.x) best = fmaxf(best, x[blockIdx.x * n + i]);
  scratch[threadIdx.x] = best;
  __syncthreads();
  for (int d = blockDim.x / 2; d; d >>= 1) {
    if (threadIdx.x < d) scratch[threadIdx.x] = fmaxf(scratch[threadIdx.x], scratch[threadIdx.x + d]);
    __syncthreads();
  }
  if (!threadIdx.x) out[blockIdx.x] = scratch[0];
}
__global__ void polynomial(float *x) {
  float v = x[threadIdx.x];
  x[threadIdx.x] = ((coefficients[3] * v + coefficients[2]) * v + coefficients[1]) * v + coefficients[0];
  if (threadIdx.x == 0) { counter += 2; big[999] = 1.5; }
}
__global__ void early_exit(int *out, int n) {
  if (threadIdx.x >= n) return;
  __shared__ int total;
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  atomicAdd(&total, 1);
  __syncthreads();
  out[threadIdx.x] = total;
}
__global__ void barrier_votes(int *out, int limit) {
  int t = threadIdx.x;
  out[t * 3] = __syncthreads_count(t < limit);
  out[t * 3 + 1] = __syncthreads_and(t < limit);
  out[t * 3 + 2] = __syncthreads_or(t < limit);
}
__global__ void shapes_of_shared(int *out) {
  __shared__ struct { int a; double b; } pair;
  __shared__ int (*row)[4];
  __shared__ __align__(16) unsigned char raw[48];
  __shared__ volatile int one, two[2];
  __shared__ union { float f; unsigned u; } bits;
  __shared__ int grid[2][4];
  if (threadIdx.x == 0) {
    pair.a = 1; pair.b = 2; row = grid; one = 3; two[1] = 4; bits.f = 1.f;
    row[1][2] = 9;
    out[6] = (int)((size_t)raw % 16);
    out[7] = sizeof(raw);
  }
  __syncthreads();
  out[0] = pair.a; out[1] = (int)pair.b; out[2] = one; out[3] = two[1];
  out[4] = bits.u >> 23; out[5] = grid[1][2];
}
__global__ void recursion(int *out, int depth);
__device__ int depth_of(int n) { return n == 0 ? 0 : 1 + depth_of(n - 1); }
__global__ void recursion(int *out, int depth) { out[threadIdx.x] = depth_of(depth + threadIdx.x); }
__global__ void __launch_bounds__(128, 2) bounded(int *) {}
__global__ void nothing() {}
}
"""


@pytest.fixture(scope="module")
def module():
    made = Module(SOURCE)
    yield made
    made.close()


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_tiled_product(module, workers):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 64, 64), dtype=np.float32)
    c = np.zeros_like(a)
    module.run("sgemm", (4, 4), (16, 16), a, b, c, I(64), workers=workers)
    np.testing.assert_allclose(c, a.astype(float) @ b, atol=1e-4)


@pytest.mark.parametrize("grid", [(1, 1, 1), (3, 2, 4), (7, 1, 1)])
@pytest.mark.parametrize("block", [(1, 1, 1), (5, 3, 2), (33, 1, 1), (32, 32, 1), (1, 1, 64)])
def test_every_thread_knows_its_place(module, grid, block):
    blocks, threads = int(np.prod(grid)), int(np.prod(block))
    out = np.zeros((blocks, threads), np.uint32)
    module.run("places", grid, block, out)
    expected = np.arange(blocks, dtype=np.uint32)[:, None] << 16 | np.arange(threads)
    np.testing.assert_array_equal(out, expected)


def test_dynamic_shared_memory(module):
    x = np.random.default_rng(1).standard_normal((50, 300), dtype=np.float32)
    out = np.zeros(50, np.float32)
    module.run("row_max", 50, 64, x, out, I(300), shared=256)
    np.testing.assert_array_equal(out, x.max(1))


def test_module_variables(module):
    module.variable("coefficients", np.float32)[:] = [1, 2, 3, 4]
    x = np.linspace(-1, 1, 32, dtype=np.float32)
    expected = ((4 * x + 3) * x + 2) * x + 1
    module.variable("counter", np.int32)[:] = 5
    module.run("polynomial", 1, 32, x)
    np.testing.assert_allclose(x, expected, rtol=1e-5)
    assert module.variable("counter", np.int32) == [7]
    assert module.variable("big", np.float64).shape == (1000,)
    assert module.variable("big", np.float64)[999] == 1.5
    assert module.globals["coefficients"].is_constant == 1
    assert module.globals["counter"].is_constant == 0


def test_threads_that_left_are_not_waited_for(module):
    out = np.full(100, -1, np.int32)
    module.run("early_exit", 1, 100, out, I(37))
    np.testing.assert_array_equal(out, np.where(np.arange(100) < 37, 37, -1))


@pytest.mark.parametrize("limit", [0, 40, 70])
def test_barriers_that_count(module, limit):
    out = np.zeros((70, 3), np.int32)
    module.run("barrier_votes", 1, 70, out, I(limit))
    np.testing.assert_array_equal(out, [[limit, limit == 70, limit > 0]] * 70)


def test_declarations_of_shared_memory(module):
    out = np.zeros(8, np.int32)
    module.run("shapes_of_shared", 1, 32, out)
    np.testing.assert_array_equal(out, [1, 2, 3, 4, 127, 9, 0, 48])


def test_recursion(module):
    out = np.zeros(64, np.int32)
    module.run("recursion", 1, 64, out, I(100))
    np.testing.assert_array_equal(out, 100 + np.arange(64))


def test_what_the_image_says_of_its_kernels(module):
    assert module.kernels["bounded"].max_threads == 128
    assert module.kernels["sgemm"].max_threads == 0
    assert module.kernels["sgemm"].static_shared_bytes == 2 * 16 * 16 * 4
    assert module.kernels["early_exit"].static_shared_bytes == 4
    assert module.kernels["places"].static_shared_bytes == 0
    module.run("nothing", 3, 5)
