"""One MoE layer: route, limit, dispatch, experts, aggregate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..capacity import Capacity, CapacityResult, apply_capacity
from ..config import RoutingRule
from .aggregate import aggregate
from .dispatch import dispatch
from .experts import run_experts
from .router import DEFAULT_RULE, Routing, route
from .weights import Array, MoELayerWeights


@dataclass(frozen=True)
class MoEOutput:
    """What one MoE layer did.

    hidden_states : [T, H] float64.
    routing : what the router chose.   assigned : what the capacity policy made of it.
    expert_load : [E] int64, tokens that each expert computed.
    """

    hidden_states: NDArray[np.float64]
    routing: Routing
    assigned: CapacityResult
    expert_load: NDArray[np.int64]


def route_layer(
    hidden_states: Array, weights: MoELayerWeights, top_k: int, rule: RoutingRule
) -> Routing:
    """What a layer's own router makes of hidden_states [T, H]."""
    return route(
        hidden_states,
        weights.router,
        top_k,
        rule,
        bias=weights.router_bias,
        correction=weights.correction,
    )


def moe_layer(
    hidden_states: Array,
    weights: MoELayerWeights,
    top_k: int = 2,
    capacity: Capacity | None = None,
    rule: RoutingRule = DEFAULT_RULE,
) -> MoEOutput:
    """The routed part of an MoE feed-forward layer, without norm, residual and shared expert.

    hidden_states : [T, H] float.
    Source: Mixtral of Experts, arXiv:2401.04088, section 2.1.
    """
    routing = route_layer(hidden_states, weights, top_k, rule)
    assigned = apply_capacity(
        routing.topk_ids, routing.topk_weights, routing.choice_scores, capacity or Capacity.none()
    )
    plan = dispatch(assigned.topk_ids, weights.num_experts)
    outputs = run_experts(hidden_states, weights, plan)
    combined = aggregate(outputs, plan, assigned.topk_weights, len(hidden_states))
    return MoEOutput(combined, routing, assigned, plan.expert_load)
