"""Curves, cliff and pins on routings whose answer is plain."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colibri_lab.cache import Budget, batches, curves, replay
from colibri_lab.cache.cost import Costs, Tier
from colibri_lab.cache.curves import (
    ONE_PASS,
    break_even,
    cliff_bytes,
    layer_curves,
    miss_ratio_curves,
)
from colibri_lab.cache.held_out import pin_gain
from colibri_lab.cache.replay import run
from colibri_lab.errors import InputError, TraceError
from colibri_lab.traces.synthetic import make_trace as synthetic
from tests.cache.test_cost import GB, two_layers
from tests.cache.test_replay import calls_of, groups_strategy, make_trace


def test_curve_of_a_cycle_falls_at_its_length():
    calls = calls_of([[key] for _ in range(10) for key in range(4)])
    found = miss_ratio_curves(calls, ["lru", "belady"], [1, 2, 3, 4, 5])
    assert found["lru"] == pytest.approx([1.0, 1.0, 1.0, 0.1, 0.1])
    assert np.all(np.diff(found["belady"]) <= 0)
    assert found["belady"][2] < 0.5


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


def test_a_layer_has_a_curve_of_its_own():
    # Layer 0 goes round four experts, layer 1 keeps to one.
    calls = two_layers([group for step in range(20) for group in ([step % 4], [5])])
    found = layer_curves(calls, "lru", [1, 3, 4])
    assert found[0] == pytest.approx([1.0, 1.0, 4 / 20])
    assert found[1] == pytest.approx([1 / 20] * 3)


def test_break_even_by_hand():
    # Two tokens in turn, four experts each. With six slots all miss; with seven every second one
    # does, but for the first eight: (8 + 38 * 2) / 40 = 2.1 experts a token; with eight none does.
    rows = [(1, 0, step, layer, slot, 2 * (step % 2) + slot)
            for step in range(40) for layer in range(2) for slot in range(2)]  # fmt: skip
    trace = make_trace(rows, size=GB)
    even, slow = (break_even(trace, Costs(Tier(gbps), layer_s=1.1), [2])[0] for gbps in (2.0, 1.0))
    assert (even.cliff_slots, even.break_even_slots, even.used) == (7, 1, 8)
    assert slow.break_even_slots == 7
    best, both = break_even(trace, Costs(Tier(1.0), layer_s=1.0))
    assert (best.top_k, both.top_k) == (1, 2)
    assert (best.used, best.break_even_slots) == (4, 1)


def test_never_even():
    rows = [(1, 0, step, 0, 0, step) for step in range(4)]
    trace = make_trace(rows, num_layers=1, size=GB)
    (found,) = break_even(trace, Costs(Tier(1.0), layer_s=0.5), [1])
    assert (found.cliff_slots, found.break_even_slots) == (None, None)


@pytest.mark.parametrize("policy", ONE_PASS)
@given(groups_strategy, st.lists(st.booleans(), min_size=9, max_size=9))
def test_one_pass_is_a_replay_of_every_size(policy, groups, decode):
    pytest.importorskip("numba")
    from colibri_lab.cache.stack import stack_hits

    calls = calls_of(groups)
    calls.decode[:] = decode[: len(calls)]
    hits = stack_hits(calls, policy)
    in_decode = stack_hits(calls, policy, decode_only=True)
    for slots in range(max(map(len, groups)), len(hits)):
        found = run(calls, policy, Budget(slots))
        assert (sum(found.hits), found.hits[1]) == (hits[slots], in_decode[slots])


def test_one_pass_or_replays_draw_the_same_curve(monkeypatch):
    pytest.importorskip("numba")
    trace = synthetic("zipf", num_tokens=60, num_layers=2, num_experts=16, top_k=2, expert_bytes=10)
    calls, sizes = batches(trace), [40, 100, 170, 320]
    names = ["lru", "lfu", "belady", "arc"]
    plain = miss_ratio_curves(calls, names, sizes)
    monkeypatch.setattr(curves, "ONE_PASS_FROM", 0)
    for name, values in miss_ratio_curves(calls, names, sizes).items():
        assert values == pytest.approx(plain[name])


def test_budgets_that_hold_no_expert():
    with pytest.raises(InputError, match="holds no expert"):
        miss_ratio_curves(two_layers([[0]]), ["lru"], [GB - 1])


def test_the_cliff_is_a_whole_number_of_experts():
    # Three experts in turn in each layer: six experts, whatever the halving passes by.
    calls = two_layers([[0], [4], [1], [5], [2], [6]] * 5)
    assert cliff_bytes(calls) == 6 * GB


def test_the_cliff_of_unequal_experts_is_exact():
    calls = two_layers([[0], [4]] * 5)
    calls.key_bytes[:4], calls.key_bytes[4:] = 7, 10
    assert cliff_bytes(calls) == 17
    hits = [replay(calls, ["lru"], [room])[0].hit_ratio > 0 for room in (16, 17)]
    assert hits == [False, True]


def test_a_policy_named_twice_is_one_curve():
    calls = calls_of([[key] for _ in range(10) for key in range(4)])
    found = miss_ratio_curves(calls, ["lru", "lru"], [3, 4])
    assert found["lru"] == pytest.approx([1.0, 0.1])
    with pytest.raises(InputError, match="needs budgets"):
        miss_ratio_curves(calls, ["lru"], [])
