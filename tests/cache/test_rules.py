"""Budgets in slots and by layer, pins, bypass, reading ahead, bounds: each against brute force or
worked out by hand."""

from functools import cache
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colibri_lab.cache import POLICIES, Batches, Budget, Rules, batches, replay
from colibri_lab.cache.bound import area_misses, shrunk
from colibri_lab.cache.loop import Pool
from colibri_lab.cache.policies import LRU
from colibri_lab.cache.predictors import PREDICTORS
from colibri_lab.cache.replay import run
from colibri_lab.errors import InputError
from tests.cache.test_replay import calls_of, groups_strategy, make_trace


def least_misses(groups, fits, *, pinned=frozenset(), bypass=False):
    """By trying everything.   fits : whether these keys may be held beside what must be."""

    @cache
    def best(index, resident):
        if index == len(groups):
            return 0
        used = frozenset(groups[index])
        after = resident | used
        must = (after & pinned) | (frozenset() if bypass else used)
        others = sorted(after - must)
        kept = [
            must | frozenset(chosen)
            for count in range(len(others) + 1)
            for chosen in combinations(others, count)
            if not chosen or fits(must | frozenset(chosen))
        ]
        return len(used - resident) + min(best(index + 1, each) for each in kept)

    return best(0, frozenset())


@settings(max_examples=400)
@given(groups_strategy, st.integers(1, 5), st.booleans(), st.integers(0, 2))
def test_the_optimum_is_exact_with_pins_and_bypass(groups, slots, bypass, num_pins):
    pinned = frozenset(range(min(num_pins, slots - 1)))
    rules = Rules(pinned=pinned, bypass=bypass)
    found = run(calls_of(groups), "belady", Budget(slots), rules)
    assert found.misses == least_misses(
        tuple(map(tuple, groups)), lambda held: len(held) <= slots, pinned=pinned, bypass=bypass
    )


@settings(max_examples=300)
@given(
    groups_strategy,
    st.lists(st.integers(1, 5), min_size=6, max_size=6),
    st.integers(5, 14),
    st.booleans(),
)
def test_the_bound_is_below_the_optimum_of_unequal_experts(groups, sizes, room, bypass):
    calls = unequal(groups, sizes)
    best = least_misses(
        tuple(map(tuple, groups)),
        lambda held: sum(sizes[key] for key in held) <= room,
        bypass=bypass,
    )
    small = run(shrunk(calls), "belady", Budget(room), Rules(bypass=bypass)).misses
    assert max(small, area_misses(calls, room, bypass)) <= best
    (result,) = replay(calls, ["lru"], [room], Rules(bypass=bypass))
    assert result.regret >= (result.misses / best - 1 if best else 0) - 1e-12


def test_the_bound_says_something():
    # Two experts of 3 in turn and room for one: the second relaxation sees that both cannot stay.
    calls = unequal([[0], [1]] * 20, [3, 3, 1, 1, 1, 1])
    assert area_misses(calls, 3) >= 20
    assert not replay(calls, ["belady"], [3])[0].exact


def unequal(groups, sizes):
    calls = calls_of(groups, num_keys=len(sizes))
    calls.key_bytes[:] = sizes
    return calls


@settings(max_examples=150)
@given(groups_strategy, st.integers(2, 5), st.booleans())
def test_every_policy_keeps_the_rules(groups, slots, bypass):
    rules = Rules(pinned=frozenset({0}), bypass=bypass)
    for result in replay(calls_of(groups), [*POLICIES, "belady"], [slots], rules):
        assert result.regret >= 0  # replay itself checks that none holds too much
        parts = (result.cache_hit_ratio, result.pin_hit_ratio, result.prefetch_hit_ratio)
        assert sum(parts) == pytest.approx(result.hit_ratio)


@settings(max_examples=100)
@given(groups_strategy, st.integers(1, 6), st.sampled_from(sorted(PREDICTORS)))
def test_reading_ahead_never_reads_less_than_the_optimum(groups, slots, predictor):
    rules = Rules(predictor=predictor, depth=2)
    for result in replay(calls_of(groups), sorted(POLICIES), [slots], rules):
        assert result.regret >= 0


def test_bypass_keeps_what_is_needed_again():
    # 0 comes again and again, the others once: with room for one, only bypassing keeps it.
    calls = calls_of([[0], [1], [0], [2], [0], [3], [0]])
    assert run(calls, "belady", Budget(1)).misses == 7
    assert run(calls, "belady", Budget(1), Rules(bypass=True)).misses == 4


def test_hits_by_pin_are_told_apart():
    calls = calls_of([[0, 1], [2], [0], [1], [0]])
    (result,) = replay(calls, ["lru"], [2], Rules(pinned=frozenset({0})))
    # 0 stays; 1 goes for 2, and comes back.
    assert result.pin_hit_ratio == pytest.approx(2 / 6)
    assert result.cache_hit_ratio == 0.0
    assert result.misses == 4


def test_hits_by_reading_ahead_are_told_apart():
    calls = calls_of([[0], [1]] * 4, num_keys=4)
    (result,) = replay(calls, ["lru"], [1], Rules(predictor="markov", depth=1))
    # After [0] [1] [0] every next one is guessed: 0 -> 1 from the fourth on, 1 -> 0 from the fifth.
    assert result.misses == 3
    assert result.prefetch_hit_ratio == pytest.approx(5 / 8)
    assert (result.bytes_read, result.prefetched_bytes) == (8, 5)


def test_slots_count_experts_and_bytes_are_still_told():
    calls = unequal([[0], [1], [2], [0]], [10, 20, 30, 1])
    (result,) = replay(calls, ["lru"], [Budget(2, in_slots=True)])
    assert (result.slots, result.budget_bytes) == (2, None)
    assert result.misses == 4
    assert result.bytes_read == 70
    assert result.peak_resident_bytes == 50
    assert result.exact


def test_a_layer_keeps_to_its_part():
    keys = [[0], [4], [1], [5], [0], [4]]  # keys 0..3 are layer 0, 4..7 layer 1
    calls = Batches(
        keys=np.concatenate(keys), starts=np.arange(7), decode=np.ones(6, bool),
        key_bytes=np.ones(8, np.int64), num_experts=4,
    )  # fmt: skip
    (shared,) = replay(calls, ["lru"], [Budget(2)])
    (split,) = replay(calls, ["lru"], [Budget(2, per_layer=True)])
    (roomy,) = replay(calls, ["lru"], [Budget(4, per_layer=True)])
    assert (shared.misses, split.misses, roomy.misses) == (6, 6, 4)
    assert split.peak_resident_bytes == 2
    assert roomy.per_layer


@given(st.lists(st.integers(0, 7), min_size=2, max_size=30), st.integers(1, 3))
def test_layers_apart_are_layers_alone(keys, share):
    calls = calls_of([[key] for key in keys], num_keys=8)
    calls = Batches(calls.keys, calls.starts, calls.decode, calls.key_bytes, num_experts=4)
    for policy in ("lru", "lfu", "belady", "arc"):
        together = run(calls, policy, Budget(2 * share, per_layer=True)).misses
        alone = sum(
            run(own, policy, Budget(share)).misses
            for own in map(calls.of_layer, range(2))
            if len(own)
        )
        assert together == alone


def test_tokens_apart():
    trace = make_trace([
        (0, 0, 0, 0, 0, 1), (0, 0, 0, 0, 1, 2), (0, 0, 1, 0, 0, 2), (0, 0, 1, 0, 1, 3),
        (1, 0, 2, 0, 0, 3), (1, 1, 2, 0, 0, 3),
    ])  # fmt: skip
    apart = batches(trace, per_token=True)
    assert [keys for keys, _ in apart.groups()] == [[1, 2], [2, 3], [3], [3]]
    assert [keys for keys, _ in batches(trace).groups()] == [[1, 2, 3], [3]]


@pytest.mark.parametrize(
    ("budget", "rules", "words"),
    [
        (Budget(2), Rules(pinned=frozenset({0, 1})), "pins fill the cache"),
        (Budget(2), Rules(predictor="markov"), "depth must be positive"),
        (Budget(2), Rules(predictor="magic", depth=1), "predictor is not known"),
    ],
)
def test_rules_that_make_no_sense(budget, rules, words):
    with pytest.raises(InputError, match=words):
        replay(calls_of([[0], [1]]), ["lru"], [budget], rules)


def test_a_budget_that_leaves_a_layer_nothing():
    calls = calls_of([[0], [5]])
    calls = Batches(calls.keys, calls.starts, calls.decode, calls.key_bytes, num_experts=4)
    with pytest.raises(InputError, match="leaves a layer nothing"):
        replay(calls, ["lru"], [Budget(1, per_layer=True)])


@settings(max_examples=300)
@given(
    groups_strategy,
    st.lists(st.integers(1, 5), min_size=6, max_size=6),
    st.integers(6, 14),
    st.booleans(),
)
def test_the_bound_is_below_the_optimum_of_unequal_experts_with_pins(groups, sizes, room, bypass):
    pinned = frozenset({0})
    calls = unequal(groups, sizes)
    best = least_misses(
        tuple(map(tuple, groups)),
        lambda held: sum(sizes[key] for key in held) <= room,
        pinned=pinned,
        bypass=bypass,
    )
    for result in replay(calls, ["lru", "belady"], [room], Rules(pinned=pinned, bypass=bypass)):
        assert result.misses >= best
        assert result.regret >= (result.misses / best - 1 if best else 0) - 1e-12


def test_pins_that_stay_where_a_batch_leaves_no_room_are_not_better_than_the_bound():
    # A batch of 20 in a room of 8: the pinned expert of 3 stays beside it, and always hits.
    calls = unequal([[0, 1, 2], [0, 3, 4]] * 20, [3, 10, 10, 10, 10, 10])
    (result,) = replay(calls, ["lru"], [8], Rules(pinned=frozenset({0})))
    assert (result.misses, result.regret) == (81, 0)


def test_guesses_have_the_room_that_pins_leave():
    # Room for three, two of them pinned: of three guesses one may be read.
    pool = Pool(LRU(), [1] * 8, room=3, pinned=frozenset({0, 1}))
    pool.use([0, 1])
    pool.settle({0, 1})
    read, gone = pool.read_ahead([2, 3, 4])
    assert (read, gone) == ([2], [])


@pytest.mark.parametrize("amount", [float("nan"), float("inf"), 2.5, "3", None, 0])
def test_budgets_are_whole_numbers(amount):
    with pytest.raises(InputError, match="a budget must be positive"):
        Budget(amount)


def test_budgets_of_numpy_do_not_overflow():
    calls = calls_of([[0], [1], [0]])
    calls.key_bytes[:] = 1 << 38
    (found,) = replay(calls, ["lru"], [Budget(np.int32(1 << 30), in_slots=True)])
    assert found.misses == 2


def test_pins_that_are_no_experts():
    with pytest.raises(InputError, match="a pin is no expert"):
        replay(calls_of([[0]]), ["lru"], [2], Rules(pinned=frozenset({999})))
