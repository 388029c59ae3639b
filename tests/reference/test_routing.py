"""Router and dispatch against hand-worked cases, plain-Python loops and their laws."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colibri_lab.config import RoutingRule
from colibri_lab.errors import InputError, ShapeError
from colibri_lab.reference import dispatch, route, route_logits

LN2, LN4 = math.log(2), math.log(4)


def test_weights_by_hand():
    # Probabilities 4/8, 2/8, 1/8, 1/8.
    logits = np.array([[0.0, LN2, LN4, 0.0]])
    renormalised = route_logits(logits, 2)
    assert renormalised.topk_ids.tolist() == [[2, 1]]
    assert renormalised.topk_weights[0] == pytest.approx([2 / 3, 1 / 3])
    plain = route_logits(logits, 2, RoutingRule(renormalize=False))
    assert plain.topk_weights[0] == pytest.approx([0.5, 0.25])
    late = route_logits(logits, 2, RoutingRule(order="topk_softmax", renormalize=False))
    assert late.topk_weights[0] == pytest.approx([2 / 3, 1 / 3])
    scaled = route_logits(logits, 2, RoutingRule(renormalize=False, scaling=16.0))
    assert scaled.topk_weights[0] == pytest.approx([8.0, 4.0])


def test_groups_by_hand():
    # Two groups of three. The best expert is in the first, the two best together in the second.
    logits = np.array([[4.0, 0.0, 0.0, 3.0, 2.0, 1.0]])
    best = RoutingRule(num_groups=2, top_groups=1)
    assert route_logits(logits, 2, best).topk_ids.tolist() == [[0, 1]]
    two = RoutingRule(num_groups=2, top_groups=1, group_score="best_two")
    routing = route_logits(logits, 2, two)
    assert routing.topk_ids.tolist() == [[3, 4]]
    assert routing.choice_scores.tolist() == [[-math.inf] * 3 + [3.0, 2.0, 1.0]]
    both = RoutingRule(num_groups=2, top_groups=2)
    assert route_logits(logits, 2, both).topk_ids.tolist() == [[0, 3]]


def test_weights_of_a_group_are_shares_of_all_experts():
    logits = np.array([[LN4, LN2, 0.0, 0.0]])
    rule = RoutingRule(renormalize=False, num_groups=2, top_groups=1)
    assert route_logits(logits, 2, rule).topk_weights[0] == pytest.approx([4 / 8, 2 / 8])


def test_correction_chooses_and_does_not_weigh():
    # Sigmoid of ln 2, ln 4 and 0: 2/3, 4/5 and 1/2.
    logits = np.array([[LN2, LN4, 0.0]])
    rule = RoutingRule(scoring="sigmoid", renormalize=False)
    correction = np.array([0.0, -1.0, 0.0])
    plain = route_logits(logits, 2, rule)
    assert plain.topk_ids.tolist() == [[1, 0]]
    assert plain.topk_weights[0] == pytest.approx([4 / 5, 2 / 3])
    corrected = route_logits(logits, 2, rule, correction=correction)
    assert corrected.topk_ids.tolist() == [[0, 2]]
    assert corrected.topk_weights[0] == pytest.approx([2 / 3, 1 / 2])
    assert corrected.choice_scores[0] == pytest.approx([2 / 3, -1 / 5, 1 / 2])


def test_sigmoid_scores_far_below_zero_keep_their_order_and_ratio():
    logits = np.array([[-50.0, -50.0 + LN2, -60.0]])
    routing = route_logits(logits, 2, RoutingRule(scoring="sigmoid"))
    assert routing.topk_ids.tolist() == [[1, 0]]
    assert routing.topk_weights[0] == pytest.approx([2 / 3, 1 / 3])


def test_bias_is_added_to_the_logits():
    hidden_states, router = np.array([[1.0, 0.0]]), np.array([[3.0, 1.0, 2.0], [0.0, 5.0, 4.0]])
    routing = route(hidden_states, router, 1, bias=np.array([0.0, 0.0, 2.0]))
    assert routing.router_logits.tolist() == [[3.0, 1.0, 4.0]]
    assert routing.topk_ids.tolist() == [[2]]


def test_ties_go_to_the_lower_id():
    logits = np.array([[1.0, 2.0, 2.0, 2.0], [0.0, 0.0, 0.0, 0.0], [5.0, 1.0, 5.0, 1.0]])
    assert route_logits(logits, 3).topk_ids.tolist() == [[1, 2, 3], [0, 1, 2], [0, 2, 1]]


def test_large_logits_neither_overflow_nor_tie():
    routing = route_logits(np.array([[1000.0, -2000.0, -1000.0]]), 3)
    assert routing.topk_ids.tolist() == [[0, 2, 1]]
    assert np.isfinite(routing.topk_weights).all()


def test_route_multiplies_by_the_router():
    hidden_states = np.array([[1.0, 0.0], [0.0, 1.0]])
    router = np.array([[3.0, 1.0, 2.0], [0.0, 5.0, 4.0]])
    routing = route(hidden_states, router, 2)
    assert routing.topk_ids.tolist() == [[0, 2], [1, 2]]
    assert routing.router_logits.tolist() == [[3.0, 1.0, 2.0], [0.0, 5.0, 4.0]]


@pytest.mark.parametrize("top_k", [0, -1, 4])
def test_top_k_out_of_range(top_k):
    with pytest.raises(InputError, match="top_k is out of range") as caught:
        route_logits(np.zeros((2, 3)), top_k)
    assert caught.value.found == top_k


def test_hidden_states_that_do_not_fit():
    with pytest.raises(ShapeError, match="do not fit the router"):
        route(np.zeros((2, 3)), np.zeros((4, 8)), 1)


def test_impossible_rules():
    with pytest.raises(InputError, match="top_groups is out of range"):
        RoutingRule(num_groups=2, top_groups=3)
    with pytest.raises(InputError, match="order is not known"):
        RoutingRule(order="top_p")


@given(
    tokens=st.integers(0, 20),
    experts=st.integers(1, 12),
    top_k=st.integers(1, 6),
    order=st.sampled_from(["softmax_topk", "topk_softmax"]),
    seed=st.integers(0, 2**31),
)
def test_router_laws(tokens, experts, top_k, order, seed):
    top_k = min(top_k, experts)
    # Whole numbers make ties frequent.
    logits = np.random.default_rng(seed).integers(-3, 4, (tokens, experts)).astype(float)
    routing = route_logits(logits, top_k, RoutingRule(order=order))
    for row, ids, weights in zip(logits, routing.topk_ids, routing.topk_weights, strict=True):
        best = sorted(range(experts), key=lambda expert: (-row[expert], expert))[:top_k]
        assert ids.tolist() == best
        exponentials = [math.exp(row[expert]) for expert in best]
        assert weights == pytest.approx([value / sum(exponentials) for value in exponentials])
    assert routing.topk_ids.dtype == np.int32
    assert routing.topk_weights.dtype == np.float32


def test_dispatch_by_hand():
    plan = dispatch(np.array([[2, 0], [0, 2], [-1, 1]], np.int32), 4)
    assert plan.sorted_token_ids.tolist() == [0, 1, 2, 0, 1]
    assert plan.sorted_slots.tolist() == [1, 0, 1, 0, 1]
    assert plan.expert_offsets.tolist() == [0, 2, 3, 5, 5]
    assert plan.expert_load.tolist() == [2, 1, 2, 0]


@given(ids=st.lists(st.lists(st.integers(-1, 6), min_size=2, max_size=2), min_size=0, max_size=30))
def test_dispatch_laws(ids):
    topk_ids = np.array(ids, np.int32).reshape(-1, 2)
    plan = dispatch(topk_ids, 7)
    wanted = [
        (expert, token, slot)
        for expert in range(7)
        for token, row in enumerate(ids)
        for slot, chosen in enumerate(row)
        if chosen == expert
    ]
    experts = np.repeat(np.arange(7), np.diff(plan.expert_offsets)).tolist()
    found = list(
        zip(experts, plan.sorted_token_ids.tolist(), plan.sorted_slots.tolist(), strict=True)
    )
    assert found == wanted
