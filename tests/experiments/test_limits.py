"""The floor of a cell, against sums by hand."""

from __future__ import annotations

import numpy as np
import pytest

from colibri_lab.config import HardwareSpec, MoEConfig
from colibri_lab.experiments import limits as limits_module
from colibri_lab.experiments.limits import Limits, below_floor
from colibri_lab.experiments.reference_runs import RoutingSummary

MOE = MoEConfig(hidden_size=8, intermediate_size=16, num_experts=4, top_k=2)


def routing(active: list[list[int]], computed: list[list[int]]) -> RoutingSummary:
    zero = np.zeros(len(active[0]), np.int64)
    load = np.zeros((len(active[0]), 4), np.int64)
    return RoutingSummary(load, np.array(active), np.array(computed), zero, zero, 1)


def test_the_floor_is_the_median_of_the_calls_floors(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def measured(working_set_bytes: int, threads: int) -> HardwareSpec:
        asked.append((working_set_bytes, threads))
        return HardwareSpec("test", read_gbps=threads, gflops=1e9 / threads, source="measured")

    monkeypatch.setattr(limits_module, "measure_hardware", measured)
    monkeypatch.setattr(limits_module, "usable_cores", lambda: 2)
    limits = Limits(MOE)
    found = limits.columns(
        routing([[1, 2], [2, 2], [2, 4]], [[2, 2]] * 3),
        num_tokens=1,
        stream_count=4,
        weight_bytes=4,
    )
    expert, layers = 3 * 8 * 16 * 4, 2 * (8 * 4 * 4 + 2 * 8 * 4)
    sizes = [count * expert + layers for count in (3, 4, 6)]
    assert found["bytes_moved"] == pytest.approx(sum(sizes) / 3, rel=1e-6)
    assert found["roofline_floor_ms"] == pytest.approx(sizes[1] / 2e9 * 1e3, rel=1e-6)
    assert found["roofline_bound"] == "memory"
    assert asked == [
        (4096, 1),
        (4096, 2),
    ]  # the power of two below the mean, on the cores there are
    assert limits.measured == {
        "4096 bytes, 2 threads": {"read_gbps": 2.0, "gflops": 1e9, "source": "measured"}
    }


def test_a_time_under_its_floor_is_warned_of() -> None:
    assert below_floor(2.0, 1.9) is None
    assert "under its floor" in str(below_floor(1.8, 1.9))
