"""Made-up traces, to see what a policy does when the answer is known; marked as synthetic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..config import check_top_k
from ..errors import InputError, TraceError
from ..reference.trace import DECODE, RoutingTrace
from .parquet import MAX_EXPERT_BYTES, MAX_TABLE

Weights = NDArray[np.float64]
MAX_ASSIGNMENTS = 1 << 28  # that a trace is made with, in memory
HOT_SHARE = 0.9  # of the draws, for the kinds with a hot set


def make_trace(
    kind: str,
    *,
    num_tokens: int,
    num_layers: int,
    num_experts: int,
    top_k: int,
    expert_bytes: int,
    seed: int = 0,
) -> RoutingTrace:
    """Decode tokens of one request, each with exactly top_k distinct experts a layer.

    kind : a name in `KINDS`.   Raises InputError for an unknown kind or sizes that make no sense.
    """
    if kind not in KINDS:
        raise InputError(
            "the kind of trace is not known", expected=f"one of {', '.join(KINDS)}", found=kind
        )
    check_top_k(top_k, num_experts)
    _check_sizes(num_tokens, num_layers, num_experts, top_k, expert_bytes, seed)
    rng = np.random.default_rng(seed)
    weights = KINDS[kind]
    chosen = np.empty((num_tokens, num_layers, top_k), np.int32)
    for index in range(num_layers):
        order = rng.permutation(num_experts)  # each layer has favourites of its own
        for token in range(num_tokens):
            chosen[token, index] = order[_draw(weights(token, num_experts), top_k, rng)]
    step, layer, slot = np.indices(chosen.shape, dtype=np.int32).reshape(3, -1)
    return RoutingTrace(
        phase=np.full(step.size, DECODE, np.uint8),
        request=np.zeros(step.size, np.int32),
        step=step,
        layer=layer,
        slot=slot,
        expert=chosen.ravel(),
        weight=np.full(step.size, 1.0 / top_k, np.float32),
        num_layers=num_layers,
        num_experts=num_experts,
        top_k=top_k,
        expert_bytes=(expert_bytes,) * num_layers,
        model=f"synthetic {kind}",
        source=f"synthetic: {kind}, seed {seed}",
        licence="none needed",
    )


def _check_sizes(
    num_tokens: int, num_layers: int, num_experts: int, top_k: int, expert_bytes: int, seed: int
) -> None:
    limits = {
        "num_layers": (num_layers, 1, MAX_TABLE // num_experts),
        "num_tokens": (num_tokens, 1, MAX_ASSIGNMENTS // (top_k * max(num_layers, 1))),
        "expert_bytes": (expert_bytes, 1, MAX_EXPERT_BYTES),
        "seed": (seed, 0, None),
    }
    for name, (value, least, most) in limits.items():
        if value < least or (most is not None and value > most):
            expected = f"{least} or more" if most is None else f"{least} to {most}"
            raise InputError(f"{name} is out of range", expected=expected, found=value)


def _draw(weights: Weights, top_k: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """top_k different indices, with chances in proportion to the weights (Gumbel's trick)."""
    noise = rng.gumbel(size=len(weights))
    with np.errstate(divide="ignore"):
        return np.argsort(-(np.log(weights) + noise), kind="stable")[:top_k]


def _uniform(token: int, num_experts: int) -> Weights:  # noqa: ARG001 - as its kind
    return np.ones(num_experts)


def _zipf(token: int, num_experts: int) -> Weights:  # noqa: ARG001
    return 1.0 / np.arange(1, num_experts + 1)


def _hot_set(token: int, num_experts: int) -> Weights:  # noqa: ARG001
    return _hot(np.arange(max(num_experts // 8, 1)), num_experts)


def _rotating(token: int, num_experts: int, period: int = 64) -> Weights:
    """The hot set moves on every `period` tokens."""
    size = max(num_experts // 8, 1)
    start = token // period * size
    return _hot((np.arange(size) + start) % num_experts, num_experts)


def _bursts(token: int, num_experts: int, period: int = 32) -> Weights:
    """Quiet stretches of even routing, and bursts on one small set."""
    if token // period % 2:
        return _hot(np.arange(max(num_experts // 16, 1)), num_experts)
    return _uniform(token, num_experts)


def _hot(hot: NDArray[np.int64], num_experts: int) -> Weights:
    weights = np.full(num_experts, (1 - HOT_SHARE) / max(num_experts - len(hot), 1))
    weights[hot] = HOT_SHARE / len(hot)
    return weights


KINDS: dict[str, Callable[[int, int], Weights]] = {
    "uniform": _uniform,
    "zipf": _zipf,
    "hot-set": _hot_set,
    "rotating": _rotating,
    "bursts": _bursts,
}


def interleave(traces: Sequence[RoutingTrace]) -> RoutingTrace:
    """One trace of several requests that take turns, a decode step each; prefills come first.

    Raises TraceError for traces of unlike models, or none.
    """
    if not traces:
        raise TraceError("there are no traces to interleave", expected="one or more", found=0)
    first = traces[0]
    shape = (first.num_layers, first.num_experts, first.expert_bytes)
    for trace in traces:
        found = (trace.num_layers, trace.num_experts, trace.expert_bytes)
        if found != shape:
            raise TraceError("the traces are of unlike models", expected=shape[:2], found=found[:2])
    request = np.concatenate([np.full(len(t), i, np.int32) for i, t in enumerate(traces)])
    tables = [trace.columns() for trace in traces]
    shared = [name for name in tables[0] if all(name in table for table in tables)]
    joined: dict[str, Any] = {
        name: np.concatenate([table[name] for table in tables]) for name in shared
    }
    del joined["request"]
    turn = np.where(joined["phase"] == DECODE, joined["step"], -1)
    order = np.lexsort((np.arange(len(request)), request, turn))
    return RoutingTrace(
        request=request[order],
        **{name: column[order] for name, column in joined.items()},
        num_layers=first.num_layers,
        num_experts=first.num_experts,
        top_k=max(trace.top_k for trace in traces),
        expert_bytes=first.expert_bytes,
        model=first.model,
        source=f"{len(traces)} requests interleaved; " + first.source,
        licence=first.licence,
    )
