"""What a trace is like, before anything is replayed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import TraceError
from ..reference.metrics import balancedness, entropy_bits
from ..reference.trace import DECODE, RoutingTrace
from .locality import (
    distinct_by_batch,
    independent_distinct,
    layer_overlap,
    reuse_steps,
    used_experts,
)
from .suspicions import decode_uses, repeated, suspicions

FEW_STEPS = 100  # fewer decode steps than this say little of a long run


def trace_stats(trace: RoutingTrace) -> dict[str, Any]:
    """Facts by name.

    cycle_bytes : bytes that one decode token touches over all layers, mean; a cache below it cannot
        hold what comes back in the next token, and LRU falls to zero.
    distinct_share : experts that were used at all, over all experts; [L].
    step_overlap : of a decode step's experts, the share that the step before used, same layer; [L].
    """
    if not len(trace):
        raise TraceError("the trace is empty", expected="one assignment or more", found=0)
    load = trace.expert_load()
    decode = trace.phase == DECODE
    return {
        "model": trace.model,
        "source": trace.source,
        "num_layers": trace.num_layers,
        "num_experts": trace.num_experts,
        "top_k": trace.top_k,
        "assignments": len(trace),
        "dropped": int((trace.expert < 0).sum()),
        "requests": len(np.unique(trace.request)),
        "prefill_tokens": _tokens(trace, ~decode),
        "decode_tokens": _tokens(trace, decode),
        "experts_bytes": int(sum(trace.expert_bytes)) * trace.num_experts,
        "cycle_bytes": _cycle_bytes(trace, decode),
        "entropy_bits": entropy_bits(load),
        "balancedness": balancedness(load),
        "distinct_share": (load > 0).mean(axis=1),
        "step_overlap": step_overlap(trace),
        **_locality(trace),
        "warnings": [*_warnings(trace, decode), *suspicions(trace)],
    }


def _locality(trace: RoutingTrace) -> dict[str, Any]:
    """layer_overlap [L-1];  distinct_experts, independent_experts : batch size -> experts a layer;
    reuse_tokens : percentile -> tokens until an expert comes back in its layer."""
    used = used_experts(trace)
    distinct, reuse = distinct_by_batch(used), reuse_steps(used)
    num_experts, top_k = trace.num_experts, trace.top_k
    percentiles = {p: float(np.percentile(reuse, p)) for p in (10, 50, 90)} if len(reuse) else {}
    return {
        "layer_overlap": layer_overlap(used),
        "distinct_experts": distinct,
        "independent_experts": {b: independent_distinct(num_experts, top_k, b) for b in distinct},
        "reuse_tokens": percentiles,
    }


def _tokens(trace: RoutingTrace, rows: NDArray[np.bool_]) -> int:
    """Different (request, step) of these rows."""
    pairs = np.stack([trace.request[rows], trace.step[rows]], axis=1)
    return len(np.unique(pairs, axis=0))


def _cycle_bytes(trace: RoutingTrace, decode: NDArray[np.bool_]) -> float:
    tokens = _tokens(trace, decode)
    if not tokens:
        return float("nan")
    sizes = np.array(trace.expert_bytes, np.float64)
    used = decode & (trace.expert >= 0)
    return float(sizes[trace.layer[used]].sum() / tokens)


def step_overlap(trace: RoutingTrace) -> NDArray[np.float64]:
    """[L] share of a decode step's experts that the request's step before used in that layer."""
    uses = decode_uses(trace)
    again = repeated(uses)
    after = uses.step > uses.first
    hits, total = (
        np.bincount(uses.layer[rows], minlength=trace.num_layers) for rows in (again, after)
    )
    return np.divide(hits, total, out=np.full(trace.num_layers, np.nan), where=total > 0)


def _warnings(trace: RoutingTrace, decode: NDArray[np.bool_]) -> list[str]:
    found = []
    tokens = _tokens(trace, decode)
    if tokens < FEW_STEPS:
        found.append(f"only {tokens} decode tokens: too few to say much of long runs")
    if len(np.unique(trace.request)) == 1:
        found.append("one request: nothing is known of how requests share the cache")
    if not all(size > 0 for size in trace.expert_bytes):
        found.append("expert sizes are missing: byte budgets cannot be replayed")
    return found
