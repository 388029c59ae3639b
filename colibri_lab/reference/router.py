"""Routing: which K of E experts each token takes, and with what weight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..config import RouterOrder, check_top_k
from ..errors import InputError, ShapeError
from .weights import Array


@dataclass(frozen=True)
class Routing:
    """topk_ids : [T, K] int32;  topk_weights : [T, K] float32;  router_logits : [T, E] float64."""

    topk_ids: NDArray[np.int32]
    topk_weights: NDArray[np.float32]
    router_logits: NDArray[np.float64]


def route(
    hidden_states: Array,
    router: Array,
    top_k: int,
    *,
    order: RouterOrder = "softmax_topk",
    renormalize: bool = True,
) -> Routing:
    """Choose the top_k experts of every token; ties go to the lower expert id.

    hidden_states : [T, H].   router : [H, E].
    order : ``softmax_topk`` (Mixtral, Qwen-MoE, DeepSeek, OLMoE) or ``topk_softmax``.
    renormalize : make each token's weights sum to 1 (Mixtral: yes; OLMoE: no).
    """
    if hidden_states.ndim != 2 or hidden_states.shape[1] != router.shape[0]:
        raise ShapeError(
            "hidden_states do not fit the router",
            expected=f"[T, {router.shape[0]}]",
            found=list(hidden_states.shape),
        )
    logits = hidden_states.astype(np.float64) @ router.astype(np.float64)
    return route_logits(logits, top_k, order=order, renormalize=renormalize)


def route_logits(
    router_logits: Array,
    top_k: int,
    *,
    order: RouterOrder = "softmax_topk",
    renormalize: bool = True,
) -> Routing:
    """`route` for router_logits [T, E] that are there already."""
    check_top_k(top_k, router_logits.shape[1])
    logits = router_logits.astype(np.float64, copy=False)
    # A softmax keeps the order of its logits, so the K best logits are the K best probabilities,
    # without the ties that exp makes of logits far below the best.
    topk_ids = np.argsort(-logits, axis=1, kind="stable")[:, :top_k].astype(np.int32)
    if order == "topk_softmax":
        weights = softmax(np.take_along_axis(logits, topk_ids, axis=1))
    elif order == "softmax_topk":
        weights = np.take_along_axis(softmax(logits), topk_ids, axis=1)
    else:
        raise InputError(
            "router order is not known", expected="softmax_topk or topk_softmax", found=order
        )
    if renormalize:
        weights = weights / weights.sum(axis=1, keepdims=True)
    return Routing(topk_ids, weights.astype(np.float32), logits)


def softmax(logits: NDArray[Any], axis: int = -1) -> NDArray[Any]:
    """exp(x) over its sum along `axis`, shifted by the maximum so that it cannot overflow."""
    shifted = np.exp(logits - logits.max(axis=axis, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=axis, keepdims=True))
