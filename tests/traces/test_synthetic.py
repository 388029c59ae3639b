"""Made traces have what they are made for."""

import numpy as np
import pytest

from colibri_lab.cache import batches, replay
from colibri_lab.errors import InputError, TraceError
from colibri_lab.traces.synthetic import KINDS, interleave, make_trace

SIZES = {"num_tokens": 256, "num_layers": 2, "num_experts": 32, "top_k": 2, "expert_bytes": 10}


@pytest.mark.parametrize("kind", KINDS)
def test_every_token_has_k_distinct_experts(kind):
    trace = make_trace(kind, **SIZES)
    experts = trace.expert.reshape(256, 2, 2)
    assert np.all(experts[..., 0] != experts[..., 1])
    assert (experts.min(), experts.max() < 32) == (0, True)
    assert "synthetic" in trace.source
    assert np.array_equal(trace.expert, make_trace(kind, **SIZES).expert)
    assert not np.array_equal(trace.expert, make_trace(kind, **SIZES, seed=1).expert)


def test_uniform_routing_makes_every_policy_score_slots_over_experts():
    trace = make_trace("uniform", **{**SIZES, "num_tokens": 2000, "num_layers": 1})
    for result in replay(trace, ["lru", "fifo", "random", "lfu"], [8 * 10]):
        assert result.hit_ratio == pytest.approx(8 / 32, abs=0.04)


def test_a_hot_set_is_hot():
    load = make_trace("hot-set", **SIZES).expert_load()
    top = np.sort(load, axis=1)[:, -4:].sum(axis=1) / load.sum(axis=1)
    assert np.all(top > 0.8)


def test_a_rotating_set_defeats_lfu_and_not_lru():
    trace = make_trace("rotating", **{**SIZES, "num_tokens": 1024})
    lru, lfu = replay(trace, ["lru", "lfu"], [12 * 10])
    assert lru.hit_ratio > lfu.hit_ratio + 0.02


def test_interleaved_requests_take_turns():
    one, two = (make_trace("zipf", **{**SIZES, "num_tokens": 3}, seed=seed) for seed in (0, 1))
    both = interleave([one, two])
    assert len(both) == len(one) + len(two)
    order = list(dict.fromkeys(zip(both.step.tolist(), both.request.tolist(), strict=True)))
    assert order == [(step, request) for step in range(3) for request in range(2)]
    assert np.array_equal(both.expert[both.request == 1], two.expert)
    assert len(batches(both)) == 3 * 2 * 2


def test_unlike_traces_are_not_interleaved():
    with pytest.raises(TraceError, match="unlike"):
        interleave([make_trace("zipf", **SIZES), make_trace("zipf", **{**SIZES, "num_layers": 3})])
    with pytest.raises(TraceError, match="no traces"):
        interleave([])


@pytest.mark.parametrize(
    "change",
    [
        {"num_tokens": 0},
        {"num_tokens": 10**20},
        {"num_layers": 2**24},
        {"top_k": 33},
        {"top_k": 0},
        {"expert_bytes": -1},
        {"expert_bytes": 10**30},
        {"seed": -1},
    ],
)
def test_sizes_that_make_no_sense(change):
    with pytest.raises(InputError, match="expected"):
        make_trace("zipf", **{**SIZES, **change})
    with pytest.raises(InputError, match="not known"):
        make_trace("magic", **SIZES)
