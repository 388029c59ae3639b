"""The experts: SwiGLU feed-forward networks."""

from __future__ import annotations

import numpy as np

from .dispatch import Dispatch
from .weights import Array, ExpertWeights, MoELayerWeights


def silu(x: Array) -> Array:
    """x * sigmoid(x), without overflow for large negative x."""
    return np.asarray(x * (0.5 * (1.0 + np.tanh(0.5 * x))))


def swiglu(x: Array, expert: ExpertWeights) -> Array:
    """down( silu(gate x) * (up x) ), summed in float64.

    x : [T, H].   Returns [T, H] float64.   Source: Shazeer, arXiv:2002.05202.
    """
    x = x.astype(np.float64, copy=False)
    gate = x @ expert.gate.astype(np.float64, copy=False).T
    up = x @ expert.up.astype(np.float64, copy=False).T
    return np.asarray((silu(gate) * up) @ expert.down.astype(np.float64, copy=False).T)


def run_experts(hidden_states: Array, weights: MoELayerWeights, plan: Dispatch) -> Array:
    """All tokens of one expert together.

    hidden_states : [T, H].   Returns [N, H] float64 in the order of `plan`.
    """
    outputs = np.empty((len(plan.sorted_token_ids), hidden_states.shape[1]), np.float64)
    for expert in np.flatnonzero(plan.expert_load):
        rows = plan.rows(int(expert))
        outputs[rows] = swiglu(
            hidden_states[plan.sorted_token_ids[rows]], weights.experts[int(expert)]
        )
    return outputs
