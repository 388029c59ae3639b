"""The roofline floor of a cell, from the experts that were really active and this machine's limits.

A floor must be one: bandwidth is measured for a working set no larger than what one call reads, so
that a model that fits a cache is not judged by the memory behind it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..config import HardwareSpec, MoEConfig
from ..profiling.bandwidth import measure_hardware
from ..profiling.environment import usable_cores
from ..profiling.roofline import moe_floor
from .reference_runs import RoutingSummary

ANY_HARDWARE = HardwareSpec("unit", 1.0, 1.0, "a unit, where bytes alone are asked for")


@dataclass
class Limits:
    """Floors of cells; what had to be measured for them is in `measured`.

    blas_threads : of each stream.
    """

    moe: MoEConfig
    blas_threads: int = 1
    measured: dict[str, dict[str, Any]] = field(default_factory=dict)

    def columns(
        self,
        routing: RoutingSummary,
        num_tokens: int,
        stream_count: int,
        weight_bytes: int,
        hardware: HardwareSpec | None = None,
    ) -> dict[str, Any]:
        """bytes_moved (mean of calls), roofline_floor_ms (median of calls), roofline_bound.

        num_tokens : T of a call.   weight_bytes : bytes of a weight where it is computed with.
        hardware : the device's limits; None: this machine's, measured.
        """
        mean = moe_floor(
            self.moe,
            num_tokens,
            routing.active.mean(axis=0).tolist(),
            routing.computed.mean(axis=0).tolist(),
            ANY_HARDWARE,
            weight_bytes=weight_bytes,
        )
        if hardware is None:
            hardware = self.hardware(mean.bytes_moved, stream_count * self.blas_threads)
        floors = [
            moe_floor(self.moe, num_tokens, active, computed, hardware, weight_bytes=weight_bytes)
            for active, computed in zip(
                routing.active.tolist(), routing.computed.tolist(), strict=True
            )
        ]
        return {
            "bytes_moved": float(np.mean([floor.bytes_moved for floor in floors])),
            "roofline_floor_ms": float(np.median([floor.floor_s for floor in floors])) * 1e3,
            "roofline_bound": Counter(floor.bound for floor in floors).most_common(1)[0][0],
        }

    def hardware(self, working_set_bytes: int, threads: int) -> HardwareSpec:
        """Measured limits for a working set, rounded down to a power of two."""
        size = working_set(working_set_bytes)
        threads = min(threads, usable_cores())
        spec = _fastest(measure_hardware(size, count) for count in sorted({1, threads}))
        self.measured[f"{size} bytes, {threads} threads"] = {
            "read_gbps": round(spec.read_gbps, 3),
            "gflops": round(spec.gflops, 3),
            "source": spec.source,
        }
        return spec


def working_set(num_bytes: int) -> int:
    """The power of two at or below: cells of nearly one size share a measurement."""
    return 1 << max(num_bytes.bit_length() - 1, 0)


def _fastest(specs: Iterable[HardwareSpec]) -> HardwareSpec:
    """The best of each limit: threads that get in each other's way do not make a floor."""
    found = list(specs)
    return replace(
        found[-1],
        read_gbps=max(spec.read_gbps for spec in found),
        gflops=max(spec.gflops for spec in found),
    )


def below_floor(latency_p50_ms: float, roofline_floor_ms: float) -> str | None:
    """A warning where a time is shorter than it can be: then floor or time is wrong."""
    if latency_p50_ms >= roofline_floor_ms:
        return None
    return (
        f"the median of {latency_p50_ms:.4g} ms is under its floor of {roofline_floor_ms:.4g} ms: "
        "the machine was slower while its limits were measured, or the time is wrong"
    )
