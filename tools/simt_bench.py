"""How fast CUDA runs without a GPU: against numba's simulator, and with the analysis on.

    python -m tools.simt_bench

The same tiled product of matrices runs on the emulated device and in numba's CUDA simulator, in one
run, in turns; times are scaled by multiply-adds. Ratios depend on the machine's load: run it quiet.
Needs PyCUDA (make pycuda) and numba.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np

from colibri_lab import simt

TILE = 16
SIZE, PEER_SIZE = 512, 48  # of our matrices, and of the simulator's
REPEATS = 5
SOURCE = """
#define TILE 16
__global__ void sgemm(const float *a, const float *b, float *c, int n) {
  __shared__ float as[TILE][TILE], bs[TILE][TILE];
  int x = threadIdx.x, y = threadIdx.y;
  int row = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;
  float sum = 0.0f;
  for (int start = 0; start < n; start += TILE) {
    as[y][x] = a[row * n + start + x];
    bs[y][x] = b[(start + y) * n + column];
    __syncthreads();
    for (int k = 0; k < TILE; k++) sum += as[y][k] * bs[k][x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}
"""
PEER = """
import sys, time
import numpy as np
from numba import cuda, float32
TILE = 16

@cuda.jit
def sgemm(a, b, c, n):
    tile_a = cuda.shared.array((TILE, TILE), float32)
    tile_b = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    row, column = cuda.blockIdx.y * TILE + y, cuda.blockIdx.x * TILE + x
    total = float32(0.0)
    for start in range(0, n, TILE):
        tile_a[y, x] = a[row, start + x]
        tile_b[y, x] = b[start + y, column]
        cuda.syncthreads()
        for k in range(TILE):
            total += tile_a[y, k] * tile_b[k, x]
        cuda.syncthreads()
    c[row, column] = total

n = int(sys.argv[1])
rng = np.random.default_rng(0)
a, b = rng.standard_normal((2, n, n), dtype=np.float32)
c = np.zeros((n, n), np.float32)
begin = time.perf_counter()
sgemm[(n // TILE, n // TILE), (TILE, TILE)](a, b, c, n)
elapsed = time.perf_counter() - begin
assert np.allclose(c, a @ b, atol=1e-3)
print(elapsed)
"""


def peer_seconds() -> float:
    """The simulator's time of one launch, in a process of its own."""
    with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
        script.write(PEER)
        script.flush()
        done = subprocess.run(
            [sys.executable, script.name, str(PEER_SIZE)],
            env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    return float(done.stdout)


class Ours:
    """The emulated device's launches."""

    def __init__(self) -> None:
        simt.enable()
        import pycuda.driver as driver

        driver.init()
        self.driver = driver
        self.context = driver.Device(0).make_context()
        rng = np.random.default_rng(0)
        self.a, self.b = rng.standard_normal((2, SIZE, SIZE), dtype=np.float32)
        self.c = np.zeros_like(self.a)

    def compile(self) -> Any:
        from pycuda.compiler import SourceModule

        return SourceModule(SOURCE, cache_dir=False).get_function("sgemm")

    def seconds(self, function: Any) -> float:
        grid = (SIZE // TILE, SIZE // TILE)
        arrays = [self.driver.to_device(each) for each in (self.a, self.b, self.c)]
        begin = time.perf_counter()
        function(*arrays, np.int32(SIZE), grid=grid, block=(TILE, TILE, 1))
        self.context.synchronize()
        elapsed = time.perf_counter() - begin
        self.driver.memcpy_dtoh(self.c, arrays[2])
        assert np.allclose(self.c, self.a @ self.b, atol=1e-2)
        return elapsed


def main() -> None:
    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache  # a first compilation, of the driver too
        begin = time.perf_counter()
        ours = Ours()
        print(f"driver built and loaded: {time.perf_counter() - begin:.1f} s, once a user")
        for name in ("first", "cached"):
            begin = time.perf_counter()
            plain = ours.compile()
            print(f"{name} compilation of a kernel: {time.perf_counter() - begin:.3f} s")
        times, peers = [], []
        for _ in range(REPEATS):
            times.append(ours.seconds(plain))
            peers.append(peer_seconds())
        ratios = [
            peer / PEER_SIZE**3 / (mine / SIZE**3) for mine, peer in zip(times, peers, strict=True)
        ]
        mine, theirs = statistics.median(times), statistics.median(peers)
        print(f"{SIZE}^3 product: {mine:.3f} s; the simulator, {PEER_SIZE}^3: {theirs:.2f} s")
        spread = f"{min(ratios):,.0f} to {max(ratios):,.0f}, {REPEATS} pairs"
        print(f"times faster than the simulator: {statistics.median(ratios):,.0f} ({spread})")
        for checks in (("counters",), ("memory",), ("races",), ("counters", "memory", "races")):
            chosen = {name: name in checks for name in ("counters", "memory", "races")}
            pairs = []
            with simt.observe(**chosen):
                function = ours.compile()
                for _ in range(3):
                    pairs.append((ours.seconds(function), ours.seconds(plain)))
            slower = statistics.median(watched / alone for watched, alone in pairs)
            print(f"{', '.join(checks)}: {slower:.1f} times slower than plain")
        ours.context.pop()


if __name__ == "__main__":
    main()
