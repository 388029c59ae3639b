"""Capacity policies against hand-worked cases and their laws."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colibri_lab.capacity import Capacity, apply_capacity, expert_capacity
from colibri_lab.errors import InputError, ShapeError
from colibri_lab.reference import route_logits

# Four tokens, three experts, top-1: three tokens want expert 0; their second choices differ.
LOGITS = np.array([[3.0, 1.0, 2.0], [3.0, 2.0, 1.0], [4.0, 2.0, 1.0], [1.0, 3.0, 2.0]])
IDS = np.array([[0], [0], [0], [1]], np.int32)
WEIGHTS = np.array([[0.5], [0.6], [0.9], [1.0]], np.float32)


@pytest.mark.parametrize(
    ("factor", "tokens", "top_k", "experts", "places"),
    [(1.0, 8, 2, 16, 1), (1.0, 9, 2, 16, 2), (1.25, 32, 2, 8, 10), (1.1, 100, 1, 10, 11)],
)
def test_expert_capacity_is_the_rounded_up_share(factor, tokens, top_k, experts, places):
    assert expert_capacity(factor, tokens, top_k, experts) == places


def test_hard_drops_the_late_ones():
    result = apply_capacity(IDS, WEIGHTS, LOGITS, Capacity.hard(1.5))  # two places an expert
    assert result.topk_ids.tolist() == [[0], [0], [-1], [1]]
    assert result.topk_weights.ravel() == pytest.approx([0.5, 0.6, 0.0, 1.0])
    assert result.dropped_fraction == 0.25
    assert result.moved_fraction == 0.0


def test_hard_by_weight_drops_the_light_ones():
    result = apply_capacity(IDS, WEIGHTS, LOGITS, Capacity.hard(1.5, order="weight"))
    assert result.topk_ids.tolist() == [[-1], [0], [0], [1]]


def test_soft_moves_to_the_next_best_with_room():
    # One place an expert, no overflow: tokens 1 and 2 leave expert 0. Token 1 wants expert 1 next,
    # which token 3 has; expert 2 has room. Token 2 finds nothing.
    result = apply_capacity(IDS, WEIGHTS, LOGITS, Capacity.soft(0.75, overflow=0.0))
    assert result.topk_ids.tolist() == [[0], [2], [-1], [1]]
    assert result.moved.tolist() == [[False], [True], [False], [False]]
    assert result.dropped.tolist() == [[False], [False], [True], [False]]
    assert result.topk_weights[1, 0] == pytest.approx(0.6)


def test_soft_lets_the_overflow_through():
    result = apply_capacity(IDS, WEIGHTS, LOGITS, Capacity.soft(1.5, overflow=0.5))
    assert result.topk_ids.tolist() == IDS.tolist()


def test_soft_never_moves_a_token_to_an_expert_that_dropped_it():
    logits = np.array([[2.0, 1.0], [2.0, 1.0], [2.0, 1.0]])
    ids = np.array([[0, 1], [0, 1], [0, 1]], np.int32)
    weights = np.full((3, 2), 0.5, np.float32)
    result = apply_capacity(ids, weights, logits, Capacity.soft(1 / 3, overflow=0.0))
    assert result.moved_fraction == 0.0
    assert result.topk_ids.tolist() == [[0, 1], [-1, -1], [-1, -1]]


def test_none_changes_nothing():
    result = apply_capacity(IDS, WEIGHTS, LOGITS, Capacity.none())
    assert result.topk_ids is IDS
    assert result.dropped_fraction == result.moved_fraction == 0.0


def test_no_tokens():
    empty = np.zeros((0, 2), np.int32)
    for policy in ("none", "hard:1.0", "soft:1.0"):
        result = apply_capacity(empty, empty, np.zeros((0, 4)), Capacity.parse(policy))
        assert result.topk_ids.shape == (0, 2)
        assert result.dropped_fraction == 0.0


policies = st.one_of(
    st.builds(Capacity.hard, st.floats(0.1, 4.0), st.sampled_from(["first", "weight"])),
    st.builds(Capacity.soft, st.floats(0.1, 4.0), st.floats(0.0, 1.0)),
)


@given(
    policy=policies,
    tokens=st.integers(1, 24),
    experts=st.integers(1, 8),
    top_k=st.integers(1, 4),
    seed=st.integers(0, 2**31),
)
def test_laws(policy, tokens, experts, top_k, seed):
    top_k = min(top_k, experts)
    logits = np.random.default_rng(seed).normal(size=(tokens, experts)) * 2
    routing = route_logits(logits, top_k)
    result = apply_capacity(routing.topk_ids, routing.topk_weights, logits, policy)
    limit = math.floor(
        round(expert_capacity(policy.factor, tokens, top_k, experts) * (1 + policy.overflow), 9)
    )
    kept = result.topk_ids[result.topk_ids >= 0]
    assert max(Counter(kept.tolist()).values(), default=0) <= limit
    for row in result.topk_ids:  # no token visits an expert twice
        visited = row[row >= 0].tolist()
        assert len(visited) == len(set(visited))
    untouched = ~result.dropped & ~result.moved
    assert np.array_equal(result.topk_ids[untouched], routing.topk_ids[untouched])
    assert not result.topk_weights[result.dropped].any()
    assert not (result.dropped & result.moved).any()
    if policy.kind == "hard":
        wanted = Counter(routing.topk_ids.ravel().tolist())
        assert result.dropped.sum() == sum(max(0, n - limit) for n in wanted.values())


@given(policies | st.just(Capacity.none()))
def test_text_round_trip(policy):
    assert Capacity.parse(str(policy)) == policy


@pytest.mark.parametrize(("kind", "order"), [("tight", "first"), ("hard", "wieght")])
def test_unknown_kinds_and_orders_are_refused(kind, order):
    with pytest.raises(InputError, match="not known"):
        Capacity(kind, 1.0, order=order)


@pytest.mark.parametrize(
    "text", ["", "hard", "hard:", "hard:x", "soft", "none:1", "hard:1:last", "hard:0", "hard:-1",
             "soft:1:-1", "hard:inf", "hard:nan", "tight:1.0"],
)  # fmt: skip
def test_unusable_policies_are_refused(text):
    with pytest.raises(InputError, match=r"expected"):
        Capacity.parse(text)


def test_arrays_that_do_not_belong_together():
    with pytest.raises(ShapeError, match="do not belong together"):
        apply_capacity(IDS, WEIGHTS[:2], LOGITS, Capacity.hard(1.0))
