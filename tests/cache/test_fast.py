"""Compiled replays against the plain loop, count for count."""

import importlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("numba")

from colibri_lab.cache import Batches, Budget, batches, fast, replay
from colibri_lab.cache.fast import replay_lru, replay_optimum
from colibri_lab.cache.replay import run_plain
from colibri_lab.cache.stream import stream_batches
from colibri_lab.errors import InputError, TraceError
from colibri_lab.traces import parquet
from colibri_lab.traces.synthetic import make_trace

NUM_KEYS = 12


def calls_of(groups, sizes, decode):
    lengths = [len(group) for group in groups]
    return Batches(
        keys=np.array([key for group in groups for key in group], np.int64),
        starts=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        decode=np.array(decode),
        key_bytes=np.array(sizes, np.int64),
        num_experts=len(sizes),
    )


@st.composite
def replays(draw):
    """Batches of distinct keys in both phases, sizes equal or not, any budget that matters."""
    group = st.lists(st.integers(0, NUM_KEYS - 1), min_size=1, max_size=5, unique=True)
    groups = draw(st.lists(group, min_size=1, max_size=60))
    size = st.integers(1, 4)
    sizes = draw(st.lists(size, min_size=NUM_KEYS, max_size=NUM_KEYS) | size.map(_equal))
    decode = draw(st.lists(st.booleans(), min_size=len(groups), max_size=len(groups)))
    return calls_of(groups, sizes, decode), draw(st.integers(1, sum(sizes) + 1))


def _equal(size):
    return [size] * NUM_KEYS


def counted(found):
    """The plain loop's counts as the compiled ones come."""
    return (tuple(found.hits), tuple(found.lookups), found.bytes_read, found.peak,
            found.resident_sum)  # fmt: skip


def random_calls(num_keys, num_batches, largest, seed=0):
    """Long enough for the heap to be rebuilt and the window to be closed up many times."""
    rng = np.random.default_rng(seed)
    shares = 1 / np.arange(1, num_keys + 1)
    shares /= shares.sum()
    groups = [
        rng.choice(num_keys, size, replace=False, p=shares)
        for size in rng.integers(1, largest + 1, num_batches)
    ]
    return calls_of(groups, [1] * num_keys, rng.random(num_batches) < 0.5)


@settings(max_examples=600)
@given(replays())
def test_lru_counts_what_the_plain_loop_counts(case):
    calls, budget = case
    found = fast.replay_lru(calls.keys, calls.starts, calls.key_bytes, budget, calls.decode)
    assert found[:5] == counted(run_plain(calls, "lru", Budget(budget)))


@settings(max_examples=600)
@given(replays())
def test_the_optimum_counts_what_the_plain_loop_counts(case):
    calls, budget = case
    found = fast.replay_optimum(calls.keys, calls.starts, calls.key_bytes, budget, calls.decode)
    assert found[:5] == counted(run_plain(calls, "belady", Budget(budget)))


@pytest.mark.parametrize(
    ("run", "policy"),
    [(fast.replay_lru, "lru"), (fast.replay_optimum, "belady")],
)
@pytest.mark.parametrize("slots", [3, 40, 130, 200])
def test_long_replays(run, policy, slots):
    calls = random_calls(num_keys=150, num_batches=4000, largest=9)
    found = run(calls.keys, calls.starts, calls.key_bytes, slots, calls.decode)
    plain = run_plain(calls, policy, Budget(slots))
    assert found[:5] == counted(plain)
    assert found.misses == plain.misses
    assert found.mean_bytes == plain.resident_sum / len(calls)


@settings(max_examples=300)
@given(replays())
def test_the_curve_is_a_replay_at_every_size(case):
    calls, _ = case
    assert_curve(calls)


@pytest.mark.parametrize(("num_keys", "largest"), [(40, 1), (60, 8), (150, 150)])
def test_the_curve_of_a_long_replay(num_keys, largest):
    # The window is 2,048 places or more, so it is full several times.
    assert_curve(
        random_calls(num_keys, num_batches=6000 // largest + 3000, largest=largest // 2 + 1)
    )


def test_the_curve_over_many_groups_of_words():
    calls = random_calls(num_keys=3000, num_batches=30_000, largest=4)
    curve = fast.lru_curve(calls.keys, calls.starts)
    for slots in (4, 100, 1000, 2500, len(curve) - 1):
        found = fast.replay_lru(calls.keys, calls.starts, calls.key_bytes, slots)
        assert curve[slots] == found.misses


def assert_curve(calls):
    curve = fast.lru_curve(calls.keys, calls.starts)
    assert len(curve) == calls.keys.max() + 2
    ones = np.ones_like(calls.key_bytes)
    unit = Batches(calls.keys, calls.starts, calls.decode, ones, calls.num_experts)
    for slots in range(int(np.diff(calls.starts).max()), len(curve)):
        assert curve[slots] == fast.replay_lru(calls.keys, calls.starts, ones, slots).misses
        if len(calls) <= 60:
            assert curve[slots] == run_plain(unit, "lru", Budget(slots)).misses


@pytest.mark.parametrize(
    ("keys", "starts", "words"),
    [
        ([0, 7], [0, 1, 2], "no size"),
        ([0, -1], [0, 1, 2], "no size"),
        ([0, 1], [0, 3, 2], "batches"),
        ([0, 1], [0, 1], "batches"),
        ([0, 1], [1, 2], "batches"),
    ],
)
def test_what_would_lead_compiled_code_astray_is_refused(keys, starts, words):
    sizes = np.ones(7, np.int64)
    with pytest.raises(InputError, match=words):
        fast.replay_lru(np.array(keys), np.array(starts), sizes, 3)


def test_replay_is_the_same_compiled_or_not(monkeypatch):
    calls = random_calls(num_keys=50, num_batches=500, largest=4)
    plain = replay(calls, ["lru", "lfu", "belady"], [5, 20])
    module = importlib.import_module("colibri_lab.cache.replay")  # the package has a function so
    monkeypatch.setattr(module, "FAST_FROM", 1)
    monkeypatch.setattr(module, "run_plain", only_lfu)
    assert replay(calls, ["lru", "lfu", "belady"], [5, 20]) == plain


def only_lfu(calls, name, budget, rules):
    assert name == "lfu"
    return run_plain(calls, name, budget, rules)


@pytest.mark.parametrize("rows", [1, 7, 64, 10_000])
def test_a_trace_in_parts_has_the_same_batches(rows, tmp_path):
    trace = make_trace("zipf", num_tokens=40, num_layers=3, num_experts=8, top_k=2, expert_bytes=10)
    trace.expert[5:9] = -1
    parquet.write_trace(trace, tmp_path / "trace.parquet")
    found = stream_batches(parquet.read_parts(tmp_path / "trace.parquet", rows))
    whole = batches(trace)
    for name in ("keys", "starts", "decode", "key_bytes"):
        assert np.array_equal(getattr(found, name), getattr(whole, name))
    assert found.num_experts == whole.num_experts


def test_an_empty_trace_and_a_file_that_is_none_are_refused(tmp_path):
    with pytest.raises(TraceError, match="empty"):
        stream_batches([])
    (tmp_path / "none").write_bytes(b"no table")
    with pytest.raises(TraceError, match="cannot be read"):
        stream_batches(parquet.read_parts(tmp_path / "none"))


def test_terabytes_over_many_batches_do_not_overflow():
    # Two experts of 256 GiB, both held from the second of 2**25 batches on.
    size, num_batches = 1 << 38, 1 << 25
    keys = np.arange(num_batches) % 2
    found = replay_lru(keys, np.arange(num_batches + 1), np.array([size, size]), 10**30)
    assert found.resident_sum == 2 * size * num_batches - size
    assert (found.misses, found.bytes_read, found.peak_bytes) == (2, 2 * size, 2 * size)


def test_a_room_between_two_sizes():
    keys, sizes = np.array([0, 1, 2, 0, 1, 2]), np.array([4, 4, 4])
    for budget in (8, 9, 11):
        found = replay_optimum(keys, np.arange(7), sizes, budget)
        assert (found.misses, found.peak_bytes) == (4, 8)
