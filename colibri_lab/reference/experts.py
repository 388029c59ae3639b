"""The experts: SwiGLU feed-forward networks."""

from __future__ import annotations

import numpy as np

from .dispatch import Dispatch
from .router import sigmoid
from .weights import Array, Clamp, ExpertWeights, MoELayerWeights, SharedExpert


def silu(x: Array) -> Array:
    """x * sigmoid(x), without overflow for large negative x."""
    return np.asarray(x * sigmoid(x))


def clamped(gate: Array, up: Array, clamp: Clamp) -> Array:
    """(up + 1) * gate * sigmoid(alpha * gate), both cut.   Source: gpt-oss, arXiv:2508.10925."""
    gate = np.minimum(gate, clamp.limit)
    up = np.clip(up, -clamp.limit, clamp.limit)
    return np.asarray((up + 1.0) * gate * sigmoid(clamp.alpha * gate))


def swiglu(x: Array, expert: ExpertWeights) -> Array:
    """down( silu(gate x) * (up x) ), summed in float64; with the expert's biases and clamp.

    x : [T, H].   Returns [T, H] float64.   Source: Shazeer, arXiv:2002.05202.
    """
    x = x.astype(np.float64, copy=False)
    gate = x @ expert.gate.astype(np.float64, copy=False).T
    up = x @ expert.up.astype(np.float64, copy=False).T
    if expert.bias is not None:
        gate, up = gate + expert.bias.gate, up + expert.bias.up
    inner = silu(gate) * up if expert.clamp is None else clamped(gate, up, expert.clamp)
    out = inner @ expert.down.astype(np.float64, copy=False).T
    return np.asarray(out if expert.bias is None else out + expert.bias.down)


def run_shared(hidden_states: Array, shared: SharedExpert) -> Array:
    """The shared expert's output of every token, behind its sigmoid gate where it has one.

    hidden_states : [T, H].   Returns [T, H] float64.
    """
    output = swiglu(hidden_states, shared.expert)
    if shared.gate is None:
        return output
    gate = hidden_states.astype(np.float64, copy=False) @ shared.gate.astype(np.float64)
    return np.asarray(sigmoid(gate)[:, None] * output)


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
