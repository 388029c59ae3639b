"""The live expert cache: whose slots they are, who waits, and what a failed read leaves."""

import threading
from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colibri_lab.cache import POLICIES, make_policy
from colibri_lab.config import MoEConfig
from colibri_lab.engine.expert_cache import ExpertCache
from colibri_lab.engine.stats import EngineStats
from colibri_lab.errors import FormatError
from colibri_lab.reference import ExpertWeights

E = 6
WAIT_S = 20


class MemoryStore:
    """Experts filled with their own number; reads are noted, and may be held up or fail."""

    moe = MoEConfig(hidden_size=3, intermediate_size=5, num_experts=E, top_k=1)
    num_layers = 1

    def __init__(self):
        self.reads, self.failures = [], []
        self.started, self.go_on = threading.Event(), threading.Event()
        self.go_on.set()

    def read_expert(self, layer, expert):
        self.reads.append(expert)
        self.started.set()
        assert self.go_on.wait(WAIT_S)
        if self.failures:
            raise self.failures.pop()
        return ExpertWeights(*(np.full(shape, expert) for shape in [(5, 3), (5, 3), (3, 5)]))

    def expert_bytes(self, layer):
        return 100


def make_cache(slots, policy="lru"):
    store = MemoryStore()
    stats = EngineStats.zeros(1, E)
    return ExpertCache(store, 0, slots, make_policy(policy), stats), store, stats


def touch(cache, expert):
    """Use an expert and hand back where it lay, after a look at what is there."""
    with cache.use(expert) as weights:
        parts = (weights.gate, weights.up, weights.down)
        assert all(np.all(part == expert) for part in parts)
        return [part.ctypes.data for part in parts]


def in_thread(work):
    """Start work in a thread; what is returned joins it and hands back its error, if any."""
    errors = []

    def guarded():
        try:
            work()
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=guarded, daemon=True)
    thread.start()

    def join():
        thread.join(WAIT_S)
        assert not thread.is_alive(), "the stream still waits"
        return errors[0] if errors else None

    return join


def wait_until_blocked(cache):
    """Until some thread waits for the cache to change."""
    for _ in range(WAIT_S * 1000):
        if cache._changed._waiters:
            return
        threading.Event().wait(0.001)
    raise AssertionError("no stream waits")


def test_slots_are_aligned_and_never_move():
    cache, _, _ = make_cache(2)
    places = {tuple(touch(cache, expert)) for expert in [*range(E), *range(E)]}
    assert len(places) == 2
    assert all(place % 64 == 0 for slot in places for place in slot)


@given(st.lists(st.integers(0, E - 1), max_size=60), st.integers(1, E))
def test_lru_counts_equal_an_ordered_dict(experts, slots):
    cache, store, stats = make_cache(slots)
    order, missed, evicted = OrderedDict(), [], [0] * E
    for expert in experts:
        touch(cache, expert)
        if expert not in order:
            missed.append(expert)
            if len(order) == slots:
                evicted[order.popitem(last=False)[0]] += 1
        order[expert] = None
        order.move_to_end(expert)
        assert {e for e in range(E) if e in cache} == set(order)
    assert store.reads == missed
    assert stats.misses[0].tolist() == np.bincount(missed, minlength=E).tolist()
    assert stats.evictions[0].tolist() == evicted
    assert stats.bytes_read.sum() == 100 * len(missed)
    assert stats.hits.sum() == len(experts) - len(missed)


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_keeps_to_its_slots(policy):
    cache, store, _ = make_cache(3, policy)
    for expert in np.random.default_rng(0).integers(0, E, 60).repeat(4).tolist():
        touch(cache, expert)
        assert sum(e in cache for e in range(E)) <= 3
    assert E <= len(store.reads) < 60


@pytest.mark.parametrize("policy", POLICIES)
def test_an_expert_in_use_stays(policy):
    cache, _, stats = make_cache(2, policy)
    with cache.use(0) as weights:
        for expert in [1, 2, 3, 4, 5] * 3:
            touch(cache, expert)
        assert np.all(weights.gate == 0)
    assert stats.evictions[0, 0] == 0


def test_a_stream_waits_for_a_slot():
    cache, store, _ = make_cache(1)
    with cache.use(0):
        join = in_thread(lambda: touch(cache, 1))
        wait_until_blocked(cache)
        assert store.reads == [0]
    assert join() is None
    assert store.reads == [0, 1]


def test_two_streams_read_an_expert_once_and_share_it():
    cache, store, stats = make_cache(2)
    together = threading.Barrier(2, timeout=WAIT_S / 2)

    def work():
        with cache.use(4):
            together.wait()

    store.go_on.clear()
    first = in_thread(work)
    assert store.started.wait(WAIT_S)
    second = in_thread(work)
    wait_until_blocked(cache)
    store.go_on.set()
    assert first() is None
    assert second() is None
    assert store.reads == [4]
    assert (stats.misses[0, 4], stats.hits[0, 4], stats.loads[0, 4]) == (1, 1, 1)


def test_who_waits_for_a_failed_read_reads_anew():
    cache, store, stats = make_cache(1)
    store.go_on.clear()
    store.failures.append(FormatError("gone"))
    first = in_thread(lambda: touch(cache, 4))
    assert store.started.wait(WAIT_S)
    second = in_thread(lambda: touch(cache, 4))
    wait_until_blocked(cache)
    store.go_on.set()
    assert isinstance(first(), FormatError)
    assert second() is None
    assert (stats.misses[0, 4], stats.hits[0, 4], stats.loads[0, 4]) == (2, 0, 1)


@pytest.mark.parametrize("error", [FormatError("short"), MemoryError(), KeyboardInterrupt()])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_failed_read_leaves_the_cache_whole(policy, error):
    cache, store, stats = make_cache(2, policy)
    touch(cache, 0)
    store.failures.append(error)
    with pytest.raises(type(error)):
        touch(cache, 1)
    assert [e for e in range(E) if e in cache] == [0]
    others = [expert for expert in range(E) if expert != 1]
    for expert in others:  # the failed one is in nobody's books
        touch(cache, expert)
    assert stats.loads.sum() == len(others)
    assert stats.evictions.sum() == len(others) - 2


def test_an_input_output_error_is_the_projects_own():
    cache, store, _ = make_cache(1)
    store.failures.append(OSError(5, "Input/output error", "model.safetensors"))
    with pytest.raises(FormatError, match="expert 3 of MoE layer 0") as caught:
        touch(cache, 3)
    assert caught.value.path == "model.safetensors"
    assert "Input/output error" in caught.value.found


def test_an_error_while_computing_gives_the_expert_back():
    cache, _, _ = make_cache(1)
    with pytest.raises(ZeroDivisionError), cache.use(0):
        raise ZeroDivisionError
    touch(cache, 1)
