"""Eviction policies: miss counts worked out by hand, and their laws."""

from collections import OrderedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colibri_lab.cache import POLICIES, make_policy
from colibri_lab.errors import InputError

TINY = [1, 2, 3, 1, 4, 1, 2, 5, 1, 2, 3, 4]
# Policy, slots, misses: followed on paper.
GOLDEN = [
    ("lru", 1, 12),
    ("lru", 2, 11),  # hit: the 1 after 4
    ("lru", 3, 8),  # hits: 1, 1, and after the 5 the 1 and the 2
    ("lru", 5, 5),
]


def run(name, keys, slots):
    """Misses, and what was resident after each step."""
    policy, resident, misses, history = make_policy(name), set(), 0, []
    for key in keys:
        if key in resident:
            policy.on_hit(key)
        else:
            misses += 1
            if len(resident) == slots:
                victim = policy.victim(())
                policy.on_evict(victim)
                resident.remove(victim)
            policy.on_insert(key)
            resident.add(key)
        history.append(frozenset(resident))
    return misses, history


@pytest.mark.parametrize(("name", "slots", "misses"), GOLDEN)
def test_golden_counts(name, slots, misses):
    assert run(name, TINY, slots)[0] == misses


keys = st.lists(st.integers(0, 7), max_size=80)


@given(keys, st.integers(1, 8))
def test_lru_equals_an_ordered_dict(sequence, slots):
    order, misses = OrderedDict(), 0
    for key in sequence:
        if key in order:
            order.move_to_end(key)
        else:
            misses += 1
            order[key] = None
            if len(order) > slots:
                order.popitem(last=False)
    assert run("lru", sequence, slots)[0] == misses


@given(keys, st.integers(1, 7))
def test_lru_holds_what_a_smaller_lru_holds(sequence, slots):
    small, large = run("lru", sequence, slots)[1], run("lru", sequence, slots + 1)[1]
    assert all(held <= more for held, more in zip(small, large, strict=True))


@pytest.mark.parametrize("name", POLICIES)
def test_protected_keys_stay(name):
    policy = make_policy(name)
    for key in (1, 2, 3):
        policy.on_insert(key)
    assert policy.victim({1, 2}) == 3
    assert policy.victim({1, 2, 3}) is None


def test_unknown_policy_lists_the_known():
    with pytest.raises(InputError, match="lru"):
        make_policy("magic")
