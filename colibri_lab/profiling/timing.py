"""Timing calls, and describing their spread."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InputError

QUANTILES = (0.5, 0.9, 0.99)


@dataclass(frozen=True)
class Spread:
    """Quantiles of samples, in the samples' unit."""

    p50: float
    p90: float
    p99: float

    def __iter__(self) -> Any:
        return iter((self.p50, self.p90, self.p99))


def percentiles(samples: ArrayLike) -> Spread:
    """p50, p90 and p99 of raw samples, linear between the two nearest (NumPy's default).

    Raises InputError where there are no samples.
    """
    values = np.asarray(samples, np.float64)
    if values.size == 0:
        raise InputError("there are no samples", expected="one or more", found=0)
    return Spread(*(float(value) for value in np.quantile(values, QUANTILES)))


def time_calls(
    call: Callable[[Any], object], inputs: Iterable[Any], warmup: int = 0
) -> NDArray[np.int64]:
    """Nanoseconds of call(input) for each input after the first `warmup`; [N] int64."""
    samples = []
    for index, given in enumerate(inputs):
        start = time.perf_counter_ns()
        call(given)
        elapsed = time.perf_counter_ns() - start
        if index >= warmup:
            samples.append(elapsed)
    return np.array(samples, np.int64)


def best_seconds(call: Callable[[], object], repeats: int) -> float:
    """The shortest of several runs: what the machine can do when nothing disturbs it."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best
