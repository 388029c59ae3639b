"""What observing costs, as a ratio within one run: of processor time, since cores are shared."""

import time

import numpy as np
import pytest

from colibri_lab import simt
from colibri_lab.simt.compiler import compile_source
from colibri_lab.simt.nvcc_arguments import parse

SIZE, TILE = 256, 32
SOURCE = """
extern "C" __global__ void sgemm(const float *a, const float *b, float *c, int n) {
  __shared__ float as[32][32], bs[32][32];
  int tx = threadIdx.x, ty = threadIdx.y;
  int x = blockIdx.x * 32 + tx, y = blockIdx.y * 32 + ty;
  float sum = 0.0f;
  for (int t = 0; t < n; t += 32) {
    as[ty][tx] = a[y * n + t + tx];
    bs[ty][tx] = b[(t + ty) * n + x];
    __syncthreads();
    for (int k = 0; k < 32; k++) sum += as[ty][k] * bs[k][tx];
    __syncthreads();
  }
  c[y * n + x] = sum;
}
"""


@pytest.fixture
def seconds(device, tmp_path):
    """Compiles SOURCE as things stand, and returns the least processor time of some launches."""
    path = tmp_path / "sgemm.cu"
    path.write_text(SOURCE)
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((SIZE, SIZE), dtype=np.float32) for _ in range(2))

    def measure(launches):
        module = device.load(compile_source(parse(["--cubin", str(path)]), str(path)))
        args = device.put(a), device.put(b), device.put(np.zeros_like(a)), np.int32(SIZE)
        blocks = SIZE // TILE
        spent = []
        for _ in range(launches):
            start = time.process_time()
            device.launch(module, "sgemm", *args, grid=(blocks, blocks), block=(TILE, TILE))
            spent.append(time.process_time() - start)
        np.testing.assert_allclose(device.get(args[2], a.shape), a @ b, rtol=1e-3, atol=1e-3)
        return min(spent)

    return measure


def test_observing_costs_what_the_guide_says(seconds):
    plain = seconds(9)
    with simt.observe(memory=False, races=False):
        counters = seconds(3)
    with simt.observe():
        everything = seconds(3)
    assert counters / plain <= 15
    assert everything / plain <= 40
