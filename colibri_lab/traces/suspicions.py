"""Signs that a trace is not what it seems: traps met in files of real engines."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..reference.trace import DECODE, RoutingTrace

# Experts a token by the models' own configurations; the first name within the trace's counts.
MODEL_TOP_K = {
    "gpt-oss": 4, "qwen3-30b-a3b": 8, "qwen3-235b-a22b": 8, "qwen1.5-moe": 4, "olmoe": 8,
    "mixtral": 2, "deepseek-v2": 6, "deepseek-v3": 8, "deepseek-r1": 8,
}  # fmt: skip
DUMMY_TOKENS = 16  # as many equal-weighted tokens in one row are no accident
SIGMAS = 3.0
PERMUTATIONS = 39
FEW_HITS = 10.0  # below this many overlaps expected by chance, nothing is said of chance
MOST_USES = 200_000  # what the shuffles look at, at most


@dataclass(frozen=True)
class Uses:
    """Each expert that a decode step used in a layer, once; [N].   first : its request's step 1."""

    request: NDArray[np.int64]
    layer: NDArray[np.int64]
    expert: NDArray[np.int64]
    step: NDArray[np.int64]
    first: NDArray[np.int64]


def decode_uses(trace: RoutingTrace) -> Uses:
    """Memory goes by the assignments, not by what steps and requests are numbered."""
    kept = (trace.phase == DECODE) & (trace.expert >= 0)
    rows = np.stack(
        [getattr(trace, name)[kept] for name in ("request", "layer", "expert", "step")]
    ).astype(np.int64)
    rows, _ = _distinct(rows)
    requests, which = np.unique(rows[0], return_inverse=True)
    first = np.full(len(requests), np.iinfo(np.int64).max)
    np.minimum.at(first, which, rows[3])
    request, layer, expert, step = rows
    return Uses(request, layer, expert, step, first[which])


def _distinct(columns: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """[C, M] different columns of [C, N], sorted by their first row, and [M] how often each was.

    As np.unique does with an axis, five times as fast.
    """
    ordered = columns[:, np.lexsort(columns[::-1])]
    new = np.ones(ordered.shape[1], bool)
    new[1:] = (np.diff(ordered, axis=1) != 0).any(axis=0)
    starts = np.flatnonzero(new)
    return ordered[:, starts], np.diff(starts, append=len(new))


def repeated(uses: Uses) -> NDArray[np.bool_]:
    """[N] whether the request's step before used the same expert in that layer."""
    order = np.lexsort((uses.step, uses.expert, uses.layer, uses.request))
    ordered = np.stack([uses.request, uses.layer, uses.expert, uses.step])[:, order]
    change = np.diff(ordered, axis=1)
    again = np.zeros(len(order), bool)
    again[order[1:]] = (change[:3] == 0).all(axis=0) & (change[3] == 1)
    return again


def suspicions(trace: RoutingTrace) -> list[str]:
    """A sentence for each sign that is found."""
    found = [
        _padding(trace), _top_k(trace), _dummies(trace), _restarts(trace), _order(trace),
        _by_phase(trace), _independent(trace), *_noted(trace),
    ]  # fmt: skip
    return [text for text in found if text]


def _padding(trace: RoutingTrace) -> str:
    used = np.unique(trace.slot[trace.expert >= 0])
    last = int(used.max(initial=-1)) + 1
    if 0 < last < trace.top_k:
        return f"top-k says {trace.top_k}, no token has more than {last} experts: it is padded"
    return ""


def _top_k(trace: RoutingTrace) -> str:
    name = trace.model.lower()
    own = next((top_k for part, top_k in MODEL_TOP_K.items() if part in name), 0)
    if trace.top_k < own:
        return f"recorded with top-{trace.top_k}, the model's own is {own}: the cycle is smaller"
    return ""


def _dummies(trace: RoutingTrace) -> str:
    """Engines warm up with made-up tokens, which a router gives equal weights."""
    if trace.top_k < 2 or len(trace) % trace.top_k:
        return ""
    weights = trace.weight.reshape(-1, trace.top_k)
    equal = (weights == weights[:, :1]).all(axis=1)  # unknown weights (nan) equal nothing
    if equal.all():  # so are those of engines that do not record weights
        return ""
    leading = int(np.argmin(equal))
    if leading < DUMMY_TOKENS:
        return ""
    return f"the first {leading} routed rows have equal weights: start-up passes, no real tokens"


def _restarts(trace: RoutingTrace) -> str:
    """Tokens numbered anew in each forward pass, so that several share request, step and layer."""
    names = ("request", "step", "layer", "slot")
    rows = np.stack([getattr(trace, name) for name in names])
    twice = rows.shape[1] - len(_distinct(rows)[1])
    if not twice:
        return ""
    alone = "request ids never change and " if len(np.unique(trace.request)) == 1 else ""
    return f"{alone}steps restart: {twice} assignments share request, step, layer and slot"


def _order(trace: RoutingTrace) -> str:
    """Prefill after decode within one request."""
    order = np.argsort(trace.request, kind="stable")
    phase, request = trace.phase[order].astype(int), trace.request[order]
    back = (np.diff(phase) < 0) & (np.diff(request) == 0)
    if back.any():
        which = request[int(np.argmax(back))]
        return f"request {which} has prefill after decode: several turns, or one id for several"
    return ""


def _by_phase(trace: RoutingTrace) -> str:
    """A file sorted by phase: all of many requests' prefill before any decode.

    Traces that `synthetic.interleave` joined are so by design, and say it.
    """
    if "requests interleaved" in trace.source:
        return ""
    requests = np.unique(trace.request[trace.phase == DECODE])
    decode = trace.phase == DECODE
    if len(requests) > 1 and decode.any() and not decode.all() and (np.diff(decode * 1) >= 0).all():
        return (
            f"all prefill stands before all decode, of {len(requests)} requests: sorted by phase?"
        )
    return ""


def _independent(trace: RoutingTrace) -> str:
    """Whether steps overlap as draws of k out of E would, or as steps in any order would."""
    uses = decode_uses(trace)
    hits = int(repeated(uses).sum())
    expected, variance = _chance(uses, trace.num_experts)
    if expected < FEW_HITS:
        return ""
    if abs(hits - expected) <= SIGMAS * variance**0.5:
        return (
            f"steps share {hits} experts with the step before, where independent random draws "
            f"would share {expected:.0f}: on such routing every policy scores slots over experts"
        )
    if len(uses.step) <= MOST_USES and hits <= max(_shuffled(uses)):
        return (
            "steps in shuffled order share as many experts: some experts are popular, "
            "but nothing links a step to the one before"
        )
    return ""


def _chance(uses: Uses, num_experts: int) -> tuple[float, float]:
    """Mean and variance of the overlaps of steps, were each a draw without replacement."""
    groups = np.stack([uses.request, uses.layer, uses.step])
    groups, size = _distinct(groups)
    change = np.diff(groups, axis=1)
    pair = (change[:2] == 0).all(axis=0) & (change[2] == 1)
    before, after = size[:-1][pair].astype(float), size[1:][pair].astype(float)
    mean = before * after / num_experts
    spare = (num_experts - before) * (num_experts - after)
    variance = mean * spare / (num_experts * max(num_experts - 1, 1))
    return float(mean.sum()), float(variance.sum())


def _shuffled(uses: Uses) -> list[int]:
    """Overlaps with the steps of every request in other orders; the seed is fixed."""
    rng = np.random.default_rng(0)
    pairs, which = np.unique(np.stack([uses.request, uses.step]), axis=1, return_inverse=True)
    which = which.reshape(-1)
    found = []
    for _ in range(PERMUTATIONS):
        order = np.lexsort((rng.random(pairs.shape[1]), pairs[0]))
        step = pairs[1][order][which]
        found.append(int(repeated(replace(uses, step=step)).sum()))
    return found


def _noted(trace: RoutingTrace) -> list[str]:
    """What the importer had to say of what the file leaves open."""
    return [note for note in trace.source.split("; ")[1:] if note]
