"""Routing: which K of E experts each token takes, and with what weight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..config import RoutingRule, check_top_k
from ..errors import ShapeError
from .weights import Array

DEFAULT_RULE = RoutingRule()


@dataclass(frozen=True)
class Routing:
    """What a router chose.

    topk_ids : [T, K] int32, the best first.   topk_weights : [T, K] float32.
    router_logits : [T, E] float64.
    choice_scores : [T, E] float64, what the experts were ranked by: the logits, or scores with a
        correction; -inf where an expert's group was not chosen.
    """

    topk_ids: NDArray[np.int32]
    topk_weights: NDArray[np.float32]
    router_logits: NDArray[np.float64]
    choice_scores: NDArray[np.float64]


def route(
    hidden_states: Array,
    router: Array,
    top_k: int,
    rule: RoutingRule = DEFAULT_RULE,
    *,
    bias: Array | None = None,
    correction: Array | None = None,
) -> Routing:
    """Choose the top_k experts of every token; ties go to the lower expert id.

    hidden_states : [T, H].   router : [H, E].   bias : [E], added to the logits (gpt-oss).
    correction : [E], added to the scores for the choice alone (DeepSeek-V3, arXiv:2412.19437).
    """
    if hidden_states.ndim != 2 or hidden_states.shape[1] != router.shape[0]:
        raise ShapeError(
            "hidden_states do not fit the router",
            expected=f"[T, {router.shape[0]}]",
            found=list(hidden_states.shape),
        )
    logits = hidden_states.astype(np.float64) @ router.astype(np.float64)
    if bias is not None:
        logits = logits + bias
    return route_logits(logits, top_k, rule, correction=correction)


def route_logits(
    router_logits: Array,
    top_k: int,
    rule: RoutingRule = DEFAULT_RULE,
    *,
    correction: Array | None = None,
) -> Routing:
    """`route` for router_logits [T, E] that are there already."""
    check_top_k(top_k, router_logits.shape[1])
    logits = router_logits.astype(np.float64, copy=False)
    choice = _choice_scores(logits, rule, correction)
    topk_ids = np.argsort(-choice, axis=1, kind="stable")[:, :top_k].astype(np.int32)
    weights = _weights(logits, topk_ids, rule)
    return Routing(topk_ids, weights.astype(np.float32), logits, choice)


def _choice_scores(
    logits: NDArray[np.float64], rule: RoutingRule, correction: Array | None
) -> NDArray[np.float64]:
    # A softmax keeps the order of its logits, so the K best logits are the K best probabilities,
    # without the ties that exp makes of logits far below the best.
    choice = logits if rule.scoring == "softmax" else sigmoid(logits)
    if correction is not None:
        choice = choice + correction
    if rule.num_groups == 1:
        return choice
    groups = choice.reshape(len(choice), rule.num_groups, -1)
    counted = 1 if rule.group_score == "best" else 2
    group_scores = np.sort(groups, axis=2)[:, :, -counted:].sum(axis=2)
    best = np.argsort(-group_scores, axis=1, kind="stable")[:, : rule.top_groups]
    chosen = np.zeros(group_scores.shape, bool)
    np.put_along_axis(chosen, best, True, axis=1)
    return np.where(chosen[:, :, None], groups, -np.inf).reshape(choice.shape)


def _weights(
    logits: NDArray[np.float64], topk_ids: NDArray[np.int32], rule: RoutingRule
) -> NDArray[np.float64]:
    if rule.order == "topk_softmax":
        weights = softmax(np.take_along_axis(logits, topk_ids, axis=1))
    else:
        scores = softmax(logits) if rule.scoring == "softmax" else sigmoid(logits)
        weights = np.take_along_axis(scores, topk_ids, axis=1)
    if rule.renormalize:
        weights = weights / weights.sum(axis=1, keepdims=True)
    return np.asarray(weights * rule.scaling)


def softmax(logits: NDArray[Any], axis: int = -1) -> NDArray[Any]:
    """exp(x) over its sum along `axis`, shifted by the maximum so that it cannot overflow."""
    shifted = np.exp(logits - logits.max(axis=axis, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=axis, keepdims=True))


def sigmoid(x: NDArray[Any]) -> NDArray[Any]:
    """1 / (1 + exp(-x)), without overflow, and not rounded to zero for large negative x."""
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1.0, small) / (1.0 + small))
