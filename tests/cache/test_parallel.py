"""Placements on small cases that can be tried out whole, and their laws."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colibri_lab.cache.parallel import balanced, contiguous, place, traffic
from colibri_lab.errors import InputError
from tests.cache.test_replay import make_trace


def test_contiguous_by_hand():
    placement = contiguous(4, 2)
    assert placement.device_of.tolist() == [0, 0, 1, 1]
    assert placement.device_load(np.array([3, 1, 2, 2])).tolist() == [4.0, 4.0]
    assert placement.imbalance(np.array([6, 2, 0, 0])) == 2.0


def test_copies_share_their_expert():
    placement = balanced(np.array([6, 1, 1]), num_devices=2, num_copies=4)
    assert np.bincount(placement.expert_of).tolist() == [2, 1, 1]
    assert placement.device_load(np.array([6, 1, 1])).tolist() == [4.0, 4.0]


def best_imbalance(load, num_devices):
    """By trying every even placement without copies."""
    size = len(load) // num_devices
    best = np.inf
    for order in itertools.permutations(range(len(load))):
        devices = np.array(load, float)[list(order)].reshape(num_devices, size).sum(axis=1)
        best = min(best, devices.max() / devices.mean())
    return best


@given(st.lists(st.integers(1, 20), min_size=6, max_size=6), st.sampled_from([2, 3]))
def test_greedy_is_near_the_best(load, num_devices):
    found = balanced(load, num_devices, 6).imbalance(np.array(load))
    best = best_imbalance(load, num_devices)
    assert best - 1e-9 <= found <= best * 4 / 3  # Graham's bound for the longest first


@given(
    st.lists(st.integers(0, 50), min_size=4, max_size=12),
    st.integers(1, 4),
    st.integers(0, 3),
)
def test_laws(load, num_devices, extra):
    copies = -(-(len(load) + extra) // num_devices) * num_devices
    placement = balanced(load, num_devices, copies)
    assert set(placement.expert_of.tolist()) == set(range(len(load)))
    per_device = np.bincount(placement.device_of, minlength=num_devices)
    assert set(per_device.tolist()) == {copies // num_devices}
    assert placement.device_load(load).sum() == pytest.approx(sum(load))


def test_more_copies_even_a_hot_expert_out():
    load = np.array([90, 1, 1, 1, 1, 1, 1, 4])
    before = contiguous(8, 4).imbalance(load)
    without = balanced(load, 4, 8).imbalance(load)
    after = balanced(load, 4, 12).imbalance(load)
    # Five copies of 18 tokens on four devices: one device has two of them.
    assert before == without == pytest.approx(91 / 25)
    assert after == pytest.approx(37 / 25)


def test_traffic_counts_what_leaves_the_device():
    placement = contiguous(4, 2)
    rows, devices = np.array([0, 1, 2, 3]), np.array([0, 1, 0, 1])
    assert traffic(rows, placement, devices) == 0.5
    everywhere = balanced(np.ones(2), 2, 4)
    assert traffic(np.array([0, 1]), everywhere, np.array([0, 1])) in (0.0, 0.5)


@pytest.mark.parametrize(("experts", "devices", "copies"), [(4, 0, 4), (4, 2, 3), (4, 3, 8)])
def test_placements_that_cannot_be(experts, devices, copies):
    with pytest.raises(InputError, match="cannot be placed"):
        balanced(np.ones(experts), devices, copies)


def test_placement_of_a_trace_by_hand():
    # Expert 0 takes half of all tokens, so one of two devices has 3/4 of the work in order.
    rows = [(1, step, 0, 0, 0, (0, 1, 0, 2, 0, 3, 0, 1)[step]) for step in range(8)]
    found = place(make_trace(rows, num_layers=1), 2)
    assert found.num_copies == 4
    assert found.contiguous == pytest.approx(2 * 6 / 8)
    assert found.balanced == pytest.approx(2 * 5 / 8)  # 0 needs a mate, and the least has a token
    # Requests 0, 2, 4, 6 are on device 0 and ask for 0, which is there; the others ask for
    # 1 (device 0), 2, 3 (device 1) and 1.
    assert found.sent_contiguous == pytest.approx(2 / 8)


def test_placement_fitted_on_the_past():
    rows = [(1, 0, step, 0, 0, 0 if step < 8 else 3) for step in range(16)]
    found = place(make_trace(rows, num_layers=1), 2)
    assert found.balanced == 1.0
    assert found.held_out == 2.0
    assert found.worst_layer == 2.0


@pytest.mark.parametrize(("devices", "copies"), [(0, 0), (2, -1)])
def test_what_cannot_be_placed(devices, copies):
    with pytest.raises(InputError, match="cannot be placed"):
        place(make_trace([(1, 0, 0, 0, 0, 1)]), devices, copies)


def test_far_too_many_copies_are_refused():
    trace = make_trace([(1, 0, step, 0, 0, step) for step in range(4)], 1, num_experts=8)
    with pytest.raises(InputError, match="placed so"):
        place(trace, 2, 10**9)
    with pytest.raises(InputError, match="divides the 8 experts"):
        place(trace, 3)
