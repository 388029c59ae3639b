"""What the reference says about a cell: outputs, routing, and the cost of its capacity policy."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..capacity import Capacity, apply_capacity
from ..reference import Decoder, MoEOutput, dispatch, moe_layer, route
from ..reference.decoder import MoEFunction
from ..reference.metrics import relative_error
from ..reference.weights import Array
from .progress import check


def run_layer(
    decoder: Decoder, layer: int, hidden_states: Array, top_k: int, capacity: Capacity
) -> MoEOutput:
    """One MoE layer of the model, as the reference computes it.   hidden_states : [T, H]."""
    return moe_layer(
        hidden_states, decoder.moe_weights(layer), top_k, capacity, decoder.config.moe.rule
    )


def run_layers(
    decoder: Decoder, hidden_states: Array, top_k: int, capacity: Capacity
) -> NDArray[np.float64]:
    """Every MoE layer on its own input.   hidden_states : [L, T, H].   Returns [L, T, H]."""
    return np.stack(
        [
            run_layer(decoder, layer, states, top_k, capacity).hidden_states
            for layer, states in enumerate(hidden_states)
        ]
    )


def watched_moe(
    decoder: Decoder,
    top_k: int | None = None,
    capacity: Capacity | None = None,
    cancel: threading.Event | None = None,
) -> MoEFunction:
    """The reference's MoE as Decoder.forward takes it, which stops when it is asked to."""

    def moe(layer: int, hidden_states: Array) -> Array:
        check(cancel)
        k = top_k or decoder.config.moe.top_k
        output = run_layer(decoder, layer, hidden_states, k, capacity or Capacity.none())
        return output.hidden_states

    return moe


@dataclass(frozen=True)
class RoutingSummary:
    """Routing of the timed calls.

    expert_load : [L, E] int64, tokens that each expert computed.
    active : [calls, L] int64, experts with a token or more.
    computed : [calls, L] int64, assignments that an expert computed.
    dropped, moved : [L] int64 assignments.   assignments : of one layer, T * K * calls.
    """

    expert_load: NDArray[np.int64]
    active: NDArray[np.int64]
    computed: NDArray[np.int64]
    dropped: NDArray[np.int64]
    moved: NDArray[np.int64]
    assignments: int

    @property
    def dropped_fraction(self) -> float:
        return float(self.dropped.sum() / (self.assignments * len(self.dropped)))

    @property
    def moved_fraction(self) -> float:
        return float(self.moved.sum() / (self.assignments * len(self.moved)))


def summarise_routing(
    decoder: Decoder,
    calls: Sequence[Array],
    top_k: int,
    capacity: Capacity,
    cancel: threading.Event | None = None,
) -> RoutingSummary:
    """Route every call with the reference and count.   calls : arrays [L, T, H]."""
    moe, num_layers = decoder.config.moe, decoder.config.num_moe_layers
    loads = np.zeros((len(calls), num_layers, moe.num_experts), np.int64)
    dropped, moved = np.zeros((2, num_layers), np.int64)
    for index, call in enumerate(calls):
        check(cancel)
        for layer, states in enumerate(call):
            weights = decoder.moe_weights(layer)
            routing = route(
                states,
                weights.router,
                top_k,
                moe.rule,
                bias=weights.router_bias,
                correction=weights.correction,
            )
            assigned = apply_capacity(
                routing.topk_ids, routing.topk_weights, routing.choice_scores, capacity
            )
            loads[index, layer] = dispatch(assigned.topk_ids, moe.num_experts).expert_load
            dropped[layer] += np.count_nonzero(assigned.dropped)
            moved[layer] += np.count_nonzero(assigned.moved)
    return RoutingSummary(
        expert_load=loads.sum(axis=0),
        active=np.count_nonzero(loads, axis=2),
        computed=loads.sum(axis=2),
        dropped=dropped,
        moved=moved,
        assignments=sum(call.shape[1] for call in calls) * top_k,
    )


def layer_errors(found: Array, reference: Array) -> NDArray[np.float64]:
    """[L] relative error of each layer.   found, reference : [L, T, H]."""
    return np.array([relative_error(a, b) for a, b in zip(found, reference, strict=True)])


def capacity_error(
    decoder: Decoder,
    calls: Sequence[Array],
    top_k: int,
    capacity: Capacity,
    cancel: threading.Event | None = None,
) -> float:
    """How far a capacity policy takes the layers' outputs from dropless ones.

    The mean over layers of each layer's relative error, all calls together.
    """
    if capacity.kind == "none":
        return 0.0
    off, size = np.zeros((2, decoder.config.num_moe_layers))
    for call in calls:
        check(cancel)
        for layer, states in enumerate(call):
            limited, dropless = (
                run_layer(decoder, layer, states, top_k, policy).hidden_states
                for policy in (capacity, Capacity.none())
            )
            off[layer] += np.square(limited - dropless).sum()
            size[layer] += np.square(dropless).sum()
    zero = np.where(off > 0, np.inf, 0.0)  # of a layer that gives zeros
    return float(np.sqrt(np.divide(off, size, out=zero, where=size > 0)).mean())
