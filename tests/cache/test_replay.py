"""Replays: accounting by hand, the optimum against brute force, laws, and published results."""

from functools import cache
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colibri_lab.cache import POLICIES, Batches, Budget, batches, replay
from colibri_lab.cache.loop import steps
from colibri_lab.cache.optimum import NEVER, next_uses
from colibri_lab.cache.replay import pools, run_plain
from colibri_lab.errors import CheckFailed, InputError, TraceError
from colibri_lab.reference.trace import RoutingTrace

# Beside the checkout, where there is one: the files are not this project's to hand out.
PUBLISHED = Path(__file__).parents[3] / "shared" / "traces" / "bigmoeonedge"


def calls_of(groups, size=1, num_keys=8, decode=True):
    """Batches of these keys."""
    lengths = [len(group) for group in groups]
    return Batches(
        keys=np.array([key for group in groups for key in group], np.int64),
        starts=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        decode=np.full(len(groups), decode),
        key_bytes=np.full(num_keys, size, np.int64),
        num_experts=num_keys,
    )


def make_trace(rows, num_layers=2, num_experts=4, size=10):
    """rows : (phase, request, step, layer, slot, expert)."""
    columns = np.array(rows, np.int64).reshape(-1, 6).T
    names = ("phase", "request", "step", "layer", "slot", "expert")
    return RoutingTrace(
        **{name: column.astype(np.int32) for name, column in zip(names, columns, strict=True)},
        weight=np.ones(columns.shape[1], np.float32),
        num_layers=num_layers,
        num_experts=num_experts,
        top_k=2,
        expert_bytes=(size,) * num_layers,
    )


def test_batches_are_layer_calls():
    # A prefill of two tokens over two layers, then two decode steps.
    trace = make_trace([
        (0, 0, 0, 0, 0, 1), (0, 0, 0, 0, 1, 2), (0, 0, 1, 0, 0, 2), (0, 0, 1, 0, 1, 3),
        (0, 0, 0, 1, 0, 0), (0, 0, 0, 1, 1, -1), (0, 0, 1, 1, 0, 0), (0, 0, 1, 1, 1, 1),
        (1, 0, 2, 0, 0, 3), (1, 0, 2, 1, 0, 1), (1, 0, 3, 0, 0, 3), (1, 0, 3, 1, 0, 2),
    ])  # fmt: skip
    found = batches(trace)
    assert [keys for keys, _ in found.groups()] == [[1, 2, 3], [4, 5], [3], [5], [3], [6]]
    assert found.decode.tolist() == [False, False, True, True, True, True]


def test_one_layer_decode_steps_are_apart():
    trace = make_trace([(1, 0, step, 0, 0, 1) for step in range(3)], num_layers=1)
    assert len(batches(trace)) == 3


def test_accounting_by_hand():
    groups = [[0, 1], [2], [0], [1], [0, 3]]
    # Room for two. After [0,1]: 0,1. [2] misses, 0 goes. [0] misses, 1 goes. [1] misses, 2 goes.
    # [0,3]: 0 hits, 3 misses, 1 goes.
    (result,) = replay(calls_of(groups, size=10), ["lru"], [20])
    assert result.misses == 6
    assert result.bytes_read == 60
    assert result.decode_hit_ratio == result.hit_ratio == pytest.approx(1 / 7)
    assert np.isnan(result.prefill_hit_ratio)
    assert result.peak_resident_bytes == 20
    assert result.mean_resident_bytes == 20


def test_a_batch_may_exceed_the_budget_and_no_more():
    (result,) = replay(calls_of([[0, 1, 2], [0, 1, 2]], size=10), ["lru"], [10])
    assert result.peak_resident_bytes == 30
    assert result.hit_ratio == 0.5  # what the batch used stays until another needs room


def least_misses(groups, slots):
    """By trying everything: the fewest misses under the rules of the replay."""

    @cache
    def best(index, resident):
        if index == len(groups):
            return 0
        used = frozenset(groups[index])
        misses = len(used - resident)
        after = resident | used
        others = sorted(after - used)
        keep = max(0, min(len(others), slots - len(used)))
        choices = combinations(others, keep) if len(after) > slots else [others]
        return misses + min(best(index + 1, used | frozenset(kept)) for kept in choices)

    return best(0, frozenset())


groups_strategy = st.lists(
    st.lists(st.integers(0, 5), min_size=1, max_size=3, unique=True), min_size=1, max_size=9
)


@settings(max_examples=1500)
@given(groups_strategy, st.integers(1, 5))
def test_the_optimum_is_exact(groups, slots):
    calls = calls_of(groups)
    found = run_plain(calls, "belady", Budget(slots))
    assert found.misses == least_misses(tuple(map(tuple, groups)), slots)


@given(groups_strategy, st.integers(1, 6))
def test_no_policy_beats_it_or_holds_more_than_it_may(groups, slots):
    calls = calls_of(groups)
    largest = max(map(len, groups))
    for result in replay(calls, [*POLICIES, "belady"], [slots]):
        assert result.peak_resident_bytes <= max(slots, largest)
        assert result.regret >= 0
        if result.policy == "belady":
            assert result.regret == 0


@given(groups_strategy)
def test_with_room_for_all_only_first_uses_miss(groups):
    distinct = len({key for group in groups for key in group})
    for result in replay(calls_of(groups), [*POLICIES, "belady"], [6]):
        assert result.misses == distinct


@given(groups_strategy, st.integers(1, 5))
def test_the_optimum_never_gets_worse_with_room(groups, slots):
    small, large = replay(calls_of(groups), ["belady"], [slots, slots + 1])
    assert large.misses <= small.misses


def test_next_uses_by_hand():
    assert next_uses(np.array([3, 1, 3, 3, 1])).tolist() == [2, 4, 3, NEVER, NEVER]


def test_unequal_sizes_are_not_called_exact():
    calls = calls_of([[0], [1], [0]])
    calls.key_bytes[1] = 5
    assert not replay(calls, ["belady"], [5])[0].exact


@pytest.mark.parametrize(
    ("policies", "budgets", "words"),
    [(["magic"], [1], "not known"), (["lru"], [0], "must be positive")],
)
def test_bad_arguments(policies, budgets, words):
    with pytest.raises(InputError, match=words):
        replay(calls_of([[0]]), policies, budgets)


def test_traces_that_cannot_be_replayed():
    with pytest.raises(TraceError, match="empty"):
        batches(make_trace([]))
    with pytest.raises(TraceError, match="how large"):
        batches(make_trace([(1, 0, 0, 0, 0, 1)], size=0))


# Decode-only hits in percent, as published with the traces (BigMoeOnEdge, 2026-07-15).
MIB = (250, 500, 750, 1000, 1500, 2000, 2500, 3000, 4000, 6000, 8000)
TABLES = {
    ("gptoss", "belady"): (17.9, 29.4, 37.2, 43.5, 53.2, 59.9, 64.5, 67.8, 73.0, 81.0, 85.0),
    ("gptoss", "lru"): (0.0, 0.0, 0.0, 17.7, 18.0, 30.9, 41.7, 44.8, 51.7, 59.5, 65.9),
    ("gptoss", "lfu"): (8.2, 14.2, 18.7, 23.3, 29.6, 35.0, 39.7, 43.6, 49.8, 59.7, 66.1),
    ("qwen", "belady"): (27.5, 45.3, 55.4, 62.7, 72.7, 79.4, 84.1, 87.8, 92.7, 96.6, 97.1),
    ("qwen", "lru"): (0.0, 0.0, 0.0, 37.7, 47.0, 56.5, 65.1, 70.6, 80.3, 92.1, 96.0),
    ("qwen", "lfu"): (17.1, 26.6, 34.1, 40.2, 50.3, 58.6, 65.5, 71.3, 80.8, 92.0, 96.0),
}
CUMULATIVE_LRU = {"gptoss": (3000, 32.4), "qwen": (4000, 74.9)}


def published(name):
    from colibri_lab.traces.importers import import_trace

    file = PUBLISHED / f"{name}.route.csv"
    if not file.is_file():
        pytest.skip("the published traces are not here; the importer's head names their source")
    return batches(import_trace(file))


@pytest.mark.parametrize("name", ["gptoss", "qwen"])
def test_published_results(name):
    calls = published(name)
    policies = ("belady", "lru", "lfu")
    results = replay(calls, policies, [size << 20 for size in MIB])
    for policy in policies:
        found = [100 * r.decode_hit_ratio for r in results if r.policy == policy]
        tolerance = 1.5 if policy == "lfu" else 0.1
        assert found == pytest.approx(TABLES[name, policy], abs=tolerance)
    size, cumulative = CUMULATIVE_LRU[name]
    (lru,) = replay(calls, ["lru"], [size << 20])
    assert 100 * lru.hit_ratio == pytest.approx(cumulative, abs=0.1)


def test_steps_tell_what_missed():
    calls = calls_of([[0, 1], [1, 2], [0]], size=10)
    found = list(steps(calls, pools(calls, "lru", Budget(20))))
    assert [step.missed for step in found] == [[0, 1], [2], [0]]
    assert [step.held_bytes for step in found] == [20, 20, 20]


class Cheat:
    """A policy that never evicts, as some published replays had it."""

    on_hit = on_insert = on_evict = staticmethod(lambda key: None)

    def victim(self, protected):
        return None


def test_a_policy_that_holds_too_much_is_caught(monkeypatch):
    monkeypatch.setitem(POLICIES, "cheat", Cheat)
    with pytest.raises(CheckFailed, match=r"beat the optimum|held more"):
        replay(calls_of([[0], [1], [2], [0], [1], [2]]), ["cheat"], [1])
