"""Curves, cliff and pins on routings whose answer is plain."""

import numpy as np
import pytest
from hypothesis import given

from colibri_lab.cache.curves import cliff_bytes, miss_ratio_curves, pin_gain
from colibri_lab.cache.replay import replay
from colibri_lab.errors import TraceError
from tests.cache.test_cost import GB, two_layers
from tests.cache.test_replay import calls_of, groups_strategy


def test_curve_of_a_cycle_falls_at_its_length():
    calls = calls_of([[key] for _ in range(10) for key in range(4)])
    curves = miss_ratio_curves(calls, ["lru", "belady"], [1, 2, 3, 4, 5])
    assert curves["lru"] == pytest.approx([1.0, 1.0, 1.0, 0.1, 0.1])
    assert np.all(np.diff(curves["belady"]) <= 0)
    assert curves["belady"][2] < 0.5


def test_the_cliff_is_the_cycle():
    calls = two_layers([[0, 1], [4, 5]] * 5)
    assert cliff_bytes(two_layers([[0], [4], [1], [5]] * 5)) == 4 * GB
    assert cliff_bytes(calls) == 3 * GB  # beside [4, 5], room for 1, which comes back first
    assert cliff_bytes(two_layers([[0], [4], [1], [5]])) is None


@given(groups_strategy)
def test_the_cliff_is_where_lru_begins_to_hit(groups):
    calls = calls_of(groups)
    cliff = cliff_bytes(calls)
    hits = [replay(calls, ["lru"], [slots])[0].hit_ratio > 0 for slots in range(1, 8)]
    assert hits.index(True) + 1 == cliff if any(hits) else cliff is None


def test_pins_that_hold_on_other_text():
    rng = np.random.default_rng(0)
    # Experts 0 and 4 are in every third token; the others come and go.
    tokens = [[[0] if i % 3 == 0 else [int(rng.integers(1, 4))],
               [4] if i % 3 == 0 else [int(rng.integers(5, 8))]] for i in range(200)]  # fmt: skip
    gain = pin_gain(two_layers([group for token in tokens for group in token]), 4 * GB)
    assert gain.num_pins == 2
    assert gain.held_out == pytest.approx(gain.in_sample)
    assert gain.held_out > gain.lru + 0.02


def test_pins_that_do_not():
    first = [[0], [4], [1], [5]] * 40
    second = [[2], [6], [3], [7]] * 40
    gain = pin_gain(two_layers(first + second), 3 * GB)
    assert gain.in_sample > gain.lru + 0.02
    assert gain.held_out <= gain.lru + 0.02


def test_too_short_to_hold_out():
    with pytest.raises(TraceError, match="too short"):
        pin_gain(two_layers([[0], [4]]), GB)
