"""Experts, aggregation and the whole MoE layer against loops over plain numbers."""

import math

import numpy as np
import pytest

from colibri_lab.capacity import Capacity
from colibri_lab.errors import ShapeError
from colibri_lab.reference import (
    ExpertWeights,
    MoELayerWeights,
    aggregate,
    dispatch,
    moe_layer,
    silu,
    swiglu,
)


def random_layer(hidden_size=6, intermediate_size=5, num_experts=4, seed=0):
    rng = np.random.default_rng(seed)
    wide = (intermediate_size, hidden_size)
    experts = [
        ExpertWeights(rng.normal(size=wide), rng.normal(size=wide), rng.normal(size=wide[::-1]))
        for _ in range(num_experts)
    ]
    return MoELayerWeights(rng.normal(size=(hidden_size, num_experts)), experts)


def layer_by_loops(hidden_states, weights, top_k):
    """The layer written token by token with the formulas of arXiv:2401.04088."""
    rows = []
    for x in hidden_states.tolist():
        logits = [sum(a * b for a, b in zip(x, col, strict=True)) for col in weights.router.T]
        best = sorted(range(len(logits)), key=lambda e: (-logits[e], e))[:top_k]
        total = sum(math.exp(logits[e]) for e in best)
        out = np.zeros(len(x))
        for e in best:
            out += math.exp(logits[e]) / total * expert_by_loops(x, weights.experts[e])
        rows.append(out)
    return np.array(rows)


def expert_by_loops(x, expert):
    def dot(row):
        return sum(a * b for a, b in zip(row, x, strict=True))

    inner = []
    for gate_row, up_row in zip(expert.gate.tolist(), expert.up.tolist(), strict=True):
        gate = dot(gate_row)
        inner.append(gate / (1 + math.exp(-gate)) * dot(up_row))
    return np.array([sum(a * b for a, b in zip(r, inner, strict=True)) for r in expert.down])


@pytest.mark.parametrize("top_k", [1, 2, 4])
@pytest.mark.parametrize("num_tokens", [0, 1, 7])
def test_layer_equals_loops(top_k, num_tokens):
    weights = random_layer()
    hidden_states = np.random.default_rng(1).normal(size=(num_tokens, 6))
    output = moe_layer(hidden_states, weights, top_k)
    wanted = layer_by_loops(hidden_states, weights, top_k)
    assert output.hidden_states == pytest.approx(wanted.reshape(num_tokens, 6), rel=1e-6, abs=1e-6)
    assert output.expert_load.sum() == num_tokens * top_k


def test_all_tokens_to_one_expert():
    weights = random_layer()
    weights = MoELayerWeights(np.zeros((6, 4)), weights.experts)
    hidden_states = np.random.default_rng(2).normal(size=(5, 6))
    output = moe_layer(hidden_states, weights, 1)
    assert output.expert_load.tolist() == [5, 0, 0, 0]
    wanted = [expert_by_loops(x, weights.experts[0]) for x in hidden_states.tolist()]
    assert output.hidden_states == pytest.approx(np.array(wanted))


def test_a_dropped_token_gets_zeros():
    weights = MoELayerWeights(np.zeros((6, 4)), random_layer().experts)
    hidden_states = np.random.default_rng(3).normal(size=(4, 6))
    output = moe_layer(hidden_states, weights, 1, Capacity.hard(1.0))
    assert output.assigned.dropped_fraction == 0.75
    assert np.array_equal(output.hidden_states[1:], np.zeros((3, 6)))
    assert output.hidden_states[0].any()


def test_silu_is_finite_far_out():
    values = silu(np.array([-1e4, -100.0, 0.0, 100.0]))
    assert values == pytest.approx([0.0, -100 / (1 + math.exp(100)), 0.0, 100.0], abs=1e-12)


def test_swiglu_sums_wide():
    # In float32 the large terms would swallow the small one.
    expert = ExpertWeights(
        np.array([[1e8, 1.0, -1e8]], np.float32),
        np.array([[0.0, 1.0, 0.0]], np.float32),
        np.array([[1.0], [0.0], [0.0]], np.float32),
    )
    x = np.ones((1, 3), np.float32)
    assert swiglu(x, expert)[0, 0] == pytest.approx(1 / (1 + math.exp(-1)))


def test_aggregate_by_hand():
    plan = dispatch(np.array([[1, 0], [0, -1]], np.int32), 2)
    outputs = np.array([[1.0], [10.0], [100.0]])  # expert 0: tokens 0, 1; expert 1: token 0
    weights = np.array([[0.5, 0.25], [2.0, 9.0]])
    assert aggregate(outputs, plan, weights, 3).tolist() == [[50.25], [20.0], [0.0]]


def test_shapes_are_checked():
    with pytest.raises(ShapeError, match="up has a wrong shape"):
        ExpertWeights(np.zeros((5, 6)), np.zeros((4, 6)), np.zeros((6, 5)))
    with pytest.raises(ShapeError, match="one column an expert"):
        MoELayerWeights(np.zeros((6, 3)), random_layer().experts)
