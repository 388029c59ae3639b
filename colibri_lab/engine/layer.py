"""One MoE layer on the CPU: route, limit, then micro-batches over the streams."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..capacity import Capacity, CapacityResult, apply_capacity
from ..config import MoEConfig
from ..reference import Dispatch, ExpertWeights, Routing, dispatch, route
from ..reference.weights import Clamp
from .buffers import Scratch
from .expert_cache import ExpertCache
from .stats import EngineStats
from .store import Router

Rows = NDArray[np.float32]


@dataclass(frozen=True)
class LayerRouting:
    """What the last call of a layer routed.

    routing : the router's choice.   assigned : what the capacity policy made of it.
    expert_load : [E] int64, tokens that each expert computed.
    """

    routing: Routing
    assigned: CapacityResult
    expert_load: NDArray[np.int64]


@dataclass(frozen=True)
class EngineLayer:
    """A layer's router, in float64 as the reference has it, and its expert cache."""

    index: int
    moe: MoEConfig
    router: Router
    cache: ExpertCache

    def plan(self, hidden_states: Rows, top_k: int, capacity: Capacity) -> LayerRouting:
        """Route the whole batch; the capacity policy sees all of it, whatever the streams."""
        routing = route(
            hidden_states,
            self.router.weight,
            top_k,
            self.moe.rule,
            bias=self.router.bias,
            correction=self.router.correction,
        )
        assigned = apply_capacity(
            routing.topk_ids, routing.topk_weights, routing.choice_scores, capacity
        )
        kept = assigned.topk_ids[assigned.topk_ids >= 0]
        return LayerRouting(routing, assigned, np.bincount(kept, minlength=self.moe.num_experts))

    def run_micro_batch(
        self,
        hidden_states: Rows,
        assigned: CapacityResult,
        tokens: slice,
        out: Rows,
        scratch: Scratch,
        stats: EngineStats,
        lock: Lock,
    ) -> None:
        """Compute out[tokens] of hidden_states[tokens], expert after expert.

        Experts that are resident come first: those read in would push them out.
        """
        x, y = hidden_states[tokens], out[tokens]
        y[...] = 0
        plan = dispatch(assigned.topk_ids[tokens], self.moe.num_experts)
        weights = assigned.topk_weights[tokens]
        active = [int(expert) for expert in np.flatnonzero(plan.expert_load)]
        for expert in sorted(active, key=lambda expert: expert not in self.cache):
            with self.cache.use(expert) as expert_weights:
                start = time.perf_counter()
                rows = compute_expert(x, expert_weights, plan, expert, scratch)
            computed = time.perf_counter()
            combine(y, rows, weights, plan, expert)
            combined = time.perf_counter()
            with lock:
                stats.calls[self.index, expert] += 1
                stats.tokens[self.index, expert] += len(rows)
                stats.compute_s[self.index, expert] += computed - start
                stats.combine_s[self.index, expert] += combined - computed


def compute_expert(
    x: Rows, weights: ExpertWeights, plan: Dispatch, expert: int, scratch: Scratch
) -> Rows:
    """The SwiGLU of one expert's tokens, in the stream's scratch; [n, H] float32."""
    token_ids = plan.sorted_token_ids[plan.rows(expert)]
    count = len(token_ids)
    rows, gate, up = scratch.x[:count], scratch.gate[:count], scratch.up[:count]
    np.take(x, token_ids, axis=0, out=rows, mode="clip")  # "raise" would buffer the output
    np.matmul(rows, weights.gate.T, out=gate)
    np.matmul(rows, weights.up.T, out=up)
    if weights.bias is not None:
        gate += weights.bias.gate
        up += weights.bias.up
    activate(gate, up, weights.clamp)
    out = np.matmul(up, weights.down.T, out=scratch.y[:count])
    if weights.bias is not None:
        out += weights.bias.down
    return out


def activate(gate: Rows, up: Rows, clamp: Clamp | None) -> None:
    """up = silu(gate) * up, or gpt-oss's clamped form of it; gate is overwritten.

    sigmoid(x) = (1 + tanh(x / 2)) / 2, which cannot overflow.
    """
    alpha = 1.0
    if clamp is not None:
        np.minimum(gate, clamp.limit, out=gate)
        np.clip(up, -clamp.limit, clamp.limit, out=up)
        up += 1.0
        alpha = clamp.alpha
    np.multiply(gate, up, out=up)
    np.multiply(gate, 0.5 * alpha, out=gate)
    np.tanh(gate, out=gate)
    np.add(gate, 1.0, out=gate)
    np.multiply(gate, 0.5, out=gate)
    np.multiply(up, gate, out=up)


def combine(y: Rows, rows: Rows, weights: NDArray[Any], plan: Dispatch, expert: int) -> None:
    """y[token] += weight * row.  A token has an expert once at most, so no row is added twice."""
    place = plan.rows(expert)
    token_ids = plan.sorted_token_ids[place]
    shares = weights[token_ids, plan.sorted_slots[place]].astype(np.float32)
    np.multiply(rows, shares[:, None], out=rows)
    y[token_ids] += rows


def micro_batches(num_tokens: int, stream_count: int) -> Sequence[slice]:
    """Contiguous, nearly equal parts of the batch; fewer where there are fewer tokens."""
    count = min(stream_count, num_tokens)
    borders = [num_tokens * part // count for part in range(count + 1)] if count else []
    return [slice(start, stop) for start, stop in pairwise(borders)]
