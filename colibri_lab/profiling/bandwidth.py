"""Measured limits: memory read bandwidth for a working set, and float32 arithmetic.

A model that fits a cache is read faster than memory, so bandwidth is measured for the bytes that
are really read again and again, not for a large buffer alone.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ..config import HardwareSpec
from .timing import best_seconds

SMALLEST_BYTES = 1 << 16  # a thread: below it, calling BLAS takes a share of the time
LARGEST_BYTES = 1 << 28
TIMED_BYTES = 1 << 27  # long enough to time, and to start the threads
MATRIX = 768


@lru_cache(maxsize=64)
def measure_read_gbps(working_set_bytes: int, threads: int = 1) -> float:
    """Best read bandwidth over a buffer of this size, 1e9 bytes a second.

    The buffer, 64 KiB a thread to 256 MiB, is split among the threads, and each adds up the
    products of its part with a vector that stays in the nearest cache: BLAS reads it with vector
    loads.
    The passes over the part are one call of NumPy each: a loop in Python would take as long as
    reading 64 KiB does.
    """
    size = min(max(working_set_bytes, SMALLEST_BYTES * threads), LARGEST_BYTES)
    parts = [np.ones((max(size // threads // 4096, 1), 1024), np.float32) for _ in range(threads)]
    total = sum(part.nbytes for part in parts)
    passes = max(1, TIMED_BYTES // total)
    work = [_repeated(part, passes) for part in parts]

    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(threads) as pool:
        seconds = best_seconds(lambda: list(pool.map(lambda read: read(), work)), repeats=7)
    return total * passes / seconds / 1e9


def _repeated(part: NDArray[np.float32], passes: int) -> Callable[[], object]:
    """What reads `part`, [rows, 1024], so many times."""
    again = np.broadcast_to(part, (passes, *part.shape))  # the same bytes over and over
    vector, out = np.ones(1024, np.float32), np.empty((passes, len(part)), np.float32)
    return lambda: np.matmul(again, vector, out=out)


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
