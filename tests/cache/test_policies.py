"""Eviction policies: miss counts worked out by hand, and their laws."""

from collections import OrderedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colibri_lab.cache import POLICIES, make_policy
from colibri_lab.cache.adaptive import LFUDecay
from colibri_lab.cache.pins import PinThree
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


SCAN = [0, 1, 0, 1, 0, 1] + [key for scan in range(40) for key in (0, 1, 100 + 3 * scan,
        101 + 3 * scan, 102 + 3 * scan)]  # fmt: skip


@pytest.mark.parametrize("name", ["lfu", "lfu-decay", "lrfu", "s3-fifo", "arc", "pin-three"])
def test_a_scan_does_not_push_out_what_is_used_all_the_time(name):
    """Keys 0 and 1 come between three keys that never come back; LRU with 3 slots loses them."""
    assert run("lru", SCAN, 3)[0] > 190
    # Pins may take half of three slots, so one of the two is kept.
    assert run(name, SCAN, 3)[0] < (170 if name == "pin-three" else 140)


def test_fifo_does_not_care_about_use():
    assert run("fifo", [1, 2, 1, 1, 3, 1], 2)[0] == 4  # 1 goes when 3 comes, though just used
    assert run("lru", [1, 2, 1, 1, 3, 1], 2)[0] == 3


def test_clock_gives_a_second_chance():
    assert run("clock", [1, 2, 1, 3, 1], 2)[0] == 3  # 1 was used: 2 goes


def test_lfu_remembers_a_favourite():
    sequence = [1, 1, 1, 2, 3, 1, 2, 3, 1]
    assert run("lfu", sequence, 2)[0] == 5  # 1 stays; 2 and 3 take turns


def test_old_fame_fades_with_decay():
    sequence = [0] * 40 + [1, 2] * 200
    assert run("lfu", sequence, 2)[0] == 81  # until 1 and 2 have come as often as 0
    assert LFUDecay(period=16).victim(()) is None
    policy = LFUDecay(period=16)
    for key in [0] * 16 + [1] * 32:
        (policy.on_hit if key in policy._resident else policy.on_insert)(key)
    assert policy.victim(()) == 0


def test_random_repeats_with_its_seed():
    sequence = [key % 7 for key in range(200)]
    assert run("random", sequence, 3) == run("random", sequence, 3)


def test_three_hits_in_a_row_pin():
    policy = PinThree()
    for key in (1, 2, 3, 4):
        policy.on_insert(key)
    for _ in range(3):
        policy.on_hit(1)
    for key in (2, 3, 4):
        policy.on_hit(key)
    assert policy.victim(()) == 2  # 1 is the longest unused, and pinned
    policy.on_evict(1)
    policy.on_insert(1)
    for key in (2, 3, 4):
        policy.on_hit(key)
    assert policy.victim(()) == 1  # its row began anew
