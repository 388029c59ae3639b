"""Timing, limits and provenance on values that are known, or bounded by what must hold."""

import json
import time

import numpy as np
import pytest

from colibri_lab.config import HardwareSpec, MoEConfig
from colibri_lab.errors import InputError
from colibri_lab.profiling import counters
from colibri_lab.profiling.bandwidth import measure_gflops, measure_hardware, measure_read_gbps
from colibri_lab.profiling.environment import describe, hardware_key
from colibri_lab.profiling.roofline import moe_floor
from colibri_lab.profiling.timing import best_seconds, percentiles, time_calls


def test_percentiles_of_known_samples():
    spread = percentiles(np.arange(101))
    assert (spread.p50, spread.p90, spread.p99) == (50.0, 90.0, 99.0)
    assert tuple(percentiles([1.0, 2.0])) == pytest.approx((1.5, 1.9, 1.99))
    assert tuple(percentiles([7])) == (7.0, 7.0, 7.0)


def test_percentiles_need_samples():
    with pytest.raises(InputError, match="no samples"):
        percentiles([])


def test_calls_are_timed_after_the_warm_up():
    seen = []
    samples = time_calls(lambda wait: (seen.append(wait), time.sleep(wait)), [0.0, 0.02, 0.01], 1)
    assert seen == [0.0, 0.02, 0.01]
    assert samples.dtype == np.int64
    assert len(samples) == 2
    assert samples[0] >= 20e6
    assert samples[1] >= 10e6


def test_best_of_several():
    waits = iter([0.02, 0.005, 0.02])
    assert 0.005 <= best_seconds(lambda: time.sleep(next(waits)), 3) < 0.02


MOE = MoEConfig(hidden_size=8, intermediate_size=16, num_experts=4, top_k=2)


def test_floor_by_hand():
    slow_memory = HardwareSpec("a", read_gbps=1e-3, gflops=1e6, source="made up")
    floor = moe_floor(MOE, 5, [3, 2], [10, 10], slow_memory)
    # 5 active experts of 3*16*8 weights, 2 routers of 8*4, states in and out of 2 layers.
    assert floor.bytes_moved == (5 * 384 + 2 * 32 + 2 * 2 * 5 * 8) * 4
    assert floor.flops == 2 * (20 * 384 + 2 * 5 * 32)
    assert floor.bound == "memory"
    assert floor.floor_s == pytest.approx(floor.bytes_moved / 1e6)
    slow_arithmetic = HardwareSpec("b", read_gbps=1e6, gflops=1e-3, source="made up")
    floor = moe_floor(MOE, 5, [3, 2], [10, 10], slow_arithmetic)
    assert floor.bound == "compute"
    assert floor.floor_s == pytest.approx(floor.flops / 1e6)


def test_floor_counts_active_experts_alone():
    hardware = HardwareSpec("a", 1.0, 1e9, "made up")
    few, all_of_them = (moe_floor(MOE, 1, [n], [2], hardware) for n in (1, 4))
    assert all_of_them.bytes_moved - few.bytes_moved == 3 * 384 * 4


def test_bandwidth_is_not_over_what_any_memory_has():
    assert 0.05 < measure_read_gbps(1 << 20) < 5000
    assert measure_read_gbps(1 << 20) == measure_read_gbps(1 << 20)  # measured once a process


def test_arithmetic_agrees_with_a_product_timed_here():
    a = np.ones((512, 512), np.float32)
    seconds = best_seconds(lambda: a @ a, 3)
    here = 2 * 512**3 / seconds / 1e9
    assert here / 20 < measure_gflops(1) < here * 20
    hardware = measure_hardware(1 << 20)
    assert hardware.source == "measured"


def test_environment_is_json_and_stable():
    first, second = describe(), describe()
    assert json.loads(json.dumps(first)) == first
    assert first["packages"]["numpy"] == np.__version__
    assert first["usable_cores"] >= 1
    assert hardware_key(first) == hardware_key({**second, "utc": "later"})
    assert hardware_key(first) != hardware_key({**first, "cpu": "another"})


def test_no_checkout_no_commit(monkeypatch):
    from colibri_lab.profiling import environment

    monkeypatch.setattr(environment, "_git", lambda *_: None)
    assert environment.git_commit() is None


@pytest.mark.parametrize(
    ("error", "words"), [(0, None), (1, "forbids"), (13, "forbids"), (2, "no counters")]
)
def test_why_counters_are_unavailable(monkeypatch, error, words):
    monkeypatch.setattr(counters.platform, "system", lambda: "Linux")
    monkeypatch.setattr(counters.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(counters, "_try_cycles", lambda _: error)
    reason = counters.why_unavailable()
    assert reason is None if words is None else words in reason


def test_counters_on_other_systems(monkeypatch):
    monkeypatch.setattr(counters.platform, "system", lambda: "Darwin")
    assert "Darwin" in counters.why_unavailable()
    monkeypatch.setattr(counters.platform, "system", lambda: "Linux")
    monkeypatch.setattr(counters.platform, "machine", lambda: "riscv64")
    assert "riscv64" in counters.why_unavailable()


def test_counters_really_asked():
    reason = counters.why_unavailable()
    assert reason is None or len(reason) > 20
