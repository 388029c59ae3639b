"""Measured limits: memory read bandwidth for a working set, and float32 arithmetic.

A model that fits a cache is read faster than memory, so bandwidth is measured for the bytes that
are really read again and again, not for a large buffer alone.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import numpy as np
from threadpoolctl import threadpool_limits

from ..config import HardwareSpec
from .timing import best_seconds

SMALLEST_BYTES = 1 << 16
LARGEST_BYTES = 1 << 28
MATRIX = 768


@lru_cache(maxsize=64)
def measure_read_gbps(working_set_bytes: int, threads: int = 1) -> float:
    """Best read bandwidth over a buffer of this size, 1e9 bytes a second.

    The buffer, 64 KiB to 256 MiB, is split among the threads, and each adds up the products
    of its part with a vector that stays in the nearest cache: BLAS reads it with vector loads.
    """
    size = min(max(working_set_bytes, SMALLEST_BYTES), LARGEST_BYTES)
    parts = [np.ones((max(size // threads // 4096, 1), 1024), np.float32) for _ in range(threads)]
    vector = np.ones(1024, np.float32)
    total = sum(part.nbytes for part in parts)
    passes = max(1, (1 << 25) // total)  # long enough to time: 32 MiB or more

    def read(part: np.ndarray[tuple[int, int], np.dtype[np.float32]]) -> None:
        for _ in range(passes):
            part @ vector

    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(threads) as pool:
        seconds = best_seconds(lambda: list(pool.map(read, parts)), repeats=7)
    return total * passes / seconds / 1e9


@lru_cache(maxsize=8)
def measure_gflops(threads: int = 1) -> float:
    """Best float32 matrix product, 1e9 operations a second, a multiply-add counted as two."""
    a = np.ones((MATRIX, MATRIX), np.float32)
    out = np.empty_like(a)
    with threadpool_limits(threads, user_api="blas"):
        seconds = best_seconds(lambda: np.matmul(a, a, out=out), repeats=7)
    return 2 * MATRIX**3 / seconds / 1e9


def measure_hardware(working_set_bytes: int = LARGEST_BYTES, threads: int = 1) -> HardwareSpec:
    """Both limits for a working set of so many bytes and so many threads."""
    return HardwareSpec(
        name="this machine",
        read_gbps=measure_read_gbps(working_set_bytes, threads),
        gflops=measure_gflops(threads),
        source="measured",
    )
