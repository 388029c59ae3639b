"""How the miss ratio falls with the budget, where the cliff is, and whether pins hold elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import TraceError
from .pins import StaticPins
from .policies import LRU, Policy
from .replay import Batches, replay, steps

PIN_SHARE = 0.5  # of the budget, left for pins; the rest is LRU's


def miss_ratio_curves(
    calls: Batches, policies: Sequence[str], budgets_bytes: Sequence[int]
) -> dict[str, NDArray[np.float64]]:
    """Policy -> [budgets] decode misses over look-ups; nan where the trace has no decode."""
    results = replay(calls, policies, budgets_bytes)
    return {
        name: np.array([1.0 - r.decode_hit_ratio for r in results if r.policy == name])
        for name in policies
    }


def cliff_bytes(calls: Batches) -> int | None:
    """The least budget at which LRU hits at all in decode, to the size of an expert; None: never.

    Below it the cache is smaller than what comes back first: about one token's cycle over all
    layers. Found by halving, since LRU keeps with more room all that it keeps with less.
    """
    low, high = 0, int(calls.key_bytes[np.unique(calls.keys)].sum())
    if not _decode_hits(calls, LRU(), high):
        return None
    step = int(calls.key_bytes.min())
    while high - low > step:
        middle = (low + high) // 2
        if _decode_hits(calls, LRU(), middle):
            high = middle
        else:
            low = middle
    return high


@dataclass(frozen=True)
class PinGain:
    """Decode hit ratios on the second half of a trace.

    lru : without pins.   held_out : pins fitted on the first half.   in_sample : on the second
    half itself, which no one can do beforehand: what a score without a split would have promised.
    """

    lru: float
    held_out: float
    in_sample: float
    num_pins: int


def pin_gain(calls: Batches, budget_bytes: int) -> PinGain:
    """Whether pins that were chosen on one part of the text help on another.

    Pins are the most used experts of the decode calls, as many as half of the budget holds. Each
    score starts with an empty cache. Raises TraceError where a half has no decode.
    """
    decode = np.flatnonzero(calls.decode)
    if len(decode) < 2 * calls.num_layers:
        raise TraceError(
            "the trace is too short to hold a half out",
            expected=f"at least {2 * calls.num_layers} decode layer calls",
            found=len(decode),
        )
    middle = int(decode[len(decode) // 2])
    first, second = calls.part(int(decode[0]), middle), calls.part(middle, len(calls))
    size = int(calls.key_bytes.max())
    count = int(budget_bytes * PIN_SHARE) // size
    return PinGain(
        lru=_hit_ratio(second, LRU(), budget_bytes),
        held_out=_hit_ratio(second, StaticPins(_busiest(first, count)), budget_bytes),
        in_sample=_hit_ratio(second, StaticPins(_busiest(second, count)), budget_bytes),
        num_pins=count,
    )


def _busiest(calls: Batches, count: int) -> frozenset[int]:
    return frozenset(key for key, _ in Counter(calls.keys.tolist()).most_common(count))


def _decode_hits(calls: Batches, policy: Policy, budget_bytes: int) -> int:
    return sum(
        len(step.used) - len(step.missed)
        for step in steps(calls, policy, budget_bytes)
        if step.decode
    )


def _hit_ratio(calls: Batches, policy: Policy, budget_bytes: int) -> float:
    lookups = sum(len(used) for used, decode in calls.groups() if decode)
    return _decode_hits(calls, policy, budget_bytes) / lookups
