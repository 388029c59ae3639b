"""Seconds from misses, worked out by hand."""

import numpy as np
import pytest

from colibri_lab.cache import Batches, Rules, batches
from colibri_lab.cache.cost import Costs, Tier, token_times
from colibri_lab.errors import InputError, TraceError
from tests.cache.test_replay import make_trace

GB = 10**9


def two_layers(groups, decode=True):
    """Keys 0..3 are layer 0, 4..7 layer 1; an expert is 1 GB."""
    return Batches(
        keys=np.array([key for group in groups for key in group], np.int64),
        starts=np.concatenate([[0], np.cumsum([len(group) for group in groups])]),
        decode=np.full(len(groups), decode),
        key_bytes=np.full(8, GB, np.int64),
        num_experts=4,
    )


def test_latencies_overlap_and_bytes_share_the_bandwidth():
    tier = Tier(gbps=2.0, latency_s=0.1, concurrency=2)
    assert tier.read_s([]) == 0.0
    assert tier.read_s([GB]) == pytest.approx(0.6)
    assert tier.read_s([GB, GB, GB]) == pytest.approx(0.2 + 1.5)


def test_tokens_by_hand():
    calls = two_layers([[0], [4], [0], [5], [1], [5]])  # three tokens
    times = token_times(calls, "lru", 8 * GB, Costs(Tier(gbps=1.0), layer_s=0.25))
    assert times.loading_s == pytest.approx([2.0, 1.0, 1.0])
    assert times.seconds == pytest.approx([2.5, 1.5, 1.5])
    assert times.tokens_per_s == pytest.approx(3 / 5.5)
    assert times.percentile_s(50) == pytest.approx(1.5)


def test_without_room_every_token_waits():
    calls = two_layers([[0], [4], [0], [4]])
    times = token_times(calls, "lru", GB, Costs(Tier(gbps=1.0), layer_s=0.0))
    assert times.seconds == pytest.approx([2.0, 2.0])


def test_prefill_fills_the_cache_and_is_not_timed():
    calls = two_layers([[0], [4], [0], [4]])
    calls.decode[:2] = False
    times = token_times(calls, "lru", 8 * GB, Costs(Tier(gbps=1.0), layer_s=0.5))
    assert times.seconds == pytest.approx([1.0])


def test_no_decode():
    with pytest.raises(TraceError, match="no decode"):
        token_times(two_layers([[0]], decode=False), "lru", GB, Costs(Tier(1.0), 0.0))


@pytest.mark.parametrize(
    "options",
    [
        {"gbps": 0.0},
        {"gbps": float("nan")},
        {"gbps": "fast"},
        {"gbps": None},
        {"gbps": 1e-320},
        {"gbps": 1.0, "latency_s": -1.0},
        {"gbps": 1.0, "latency_s": float("inf")},
        {"gbps": 1.0, "latency_s": [1]},
        {"gbps": 1.0, "concurrency": 0},
        {"gbps": 1.0, "concurrency": 1.5},
    ],
)
def test_bad_tier(options):
    with pytest.raises(InputError, match="makes no sense"):
        Tier(**options)


def test_host_memory_before_a_disk():
    # Expert 0 misses a device of one expert each time; host memory of one holds what was last.
    calls = two_layers([[0], [4], [0], [4]])
    tiers = {"tier": Tier(gbps=2.0), "disk": Tier(gbps=1.0)}
    small = token_times(calls, "lru", GB, Costs(**tiers, layer_s=0.0, host_bytes=GB))
    assert small.loading_s == pytest.approx([3.0, 3.0])  # a second from disk, half over the bus
    large = token_times(calls, "lru", GB, Costs(**tiers, layer_s=0.0, host_bytes=2 * GB))
    assert large.loading_s == pytest.approx([3.0, 1.0])


def test_the_cpu_takes_what_makes_the_rest_soonest():
    costs = Costs(Tier(gbps=1.0), layer_s=0.0, cpu_gbps=0.5)
    assert costs.shared_s([]) == (0.0, 0)
    assert costs.shared_s([GB]) == (1.0, 0)
    assert costs.shared_s([GB, GB, GB]) == (2.0, 1)  # two seconds each: one there, two here
    times = token_times(two_layers([[0, 1, 2], [4]]), "lru", 8 * GB, costs)
    assert times.seconds == pytest.approx([3.0])
    assert times.absorbed == pytest.approx(1 / 4)


def test_reading_ahead_takes_the_time_of_a_layer():
    calls = two_layers([[0], [4]] * 3)
    rules = Rules(predictor="last-token", depth=1)
    costs = Costs(Tier(gbps=1.0), layer_s=0.25)
    times = token_times(calls, "lru", GB, costs, rules)
    # The first token misses twice; later ones wait three quarters of a second a layer.
    assert times.loading_s == pytest.approx([2.0, 1.5, 1.5])


@pytest.mark.parametrize(
    "options", [{"layer_s": -1.0}, {"layer_s": 0.0, "cpu_gbps": -1.0},
                {"layer_s": 0.0, "disk": Tier(1.0)}, {"layer_s": float("nan")}],
)  # fmt: skip
def test_bad_costs(options):
    with pytest.raises(InputError, match=r"make no sense|needs its size"):
        Costs(Tier(1.0), **options)


def three_layers(rows):
    """rows : (request, step, layer, expert), one expert a token."""
    table = [(1, request, step, layer, 0, expert) for request, step, layer, expert in rows]
    return batches(make_trace(table, num_layers=3, size=1_000_000_000))


def test_a_token_whose_layers_were_dropped_is_a_token_of_its_own():
    # The first token has lost layer 1 and 2, the second layer 0: their layers rise all the same.
    calls = three_layers([(0, 0, 0, 1), (0, 1, 1, 1), (0, 1, 2, 1), (0, 2, 2, -1), (0, 2, 0, 2)])
    times = token_times(calls, "lru", 1, Costs(Tier(1.0), layer_s=1.0))
    assert times.seconds.tolist() == [2.0, 4.0, 2.0]


def test_requests_that_take_turns_in_each_layer():
    rows = [(request, 5 + 2 * request, layer, request) for layer in range(3) for request in (0, 1)]
    times = token_times(three_layers(rows), "lru", 1, Costs(Tier(1.0), layer_s=0.5))
    assert times.seconds.tolist() == [4.5, 4.5]


def test_steps_that_restart_are_tokens_of_their_own():
    rows = [(0, 0, layer, token) for token in range(2) for layer in range(3)]
    assert len(token_times(three_layers(rows), "lru", 1, Costs(Tier(1.0), 0.0)).seconds) == 2
