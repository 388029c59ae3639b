"""Whether pins that were chosen on one part of a text help on another."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from ..errors import TraceError
from .budget import DEMAND, Budget, Rules
from .calls import Batches
from .replay import run

PIN_SHARE = 0.5  # of the budget, left for pins; the rest is LRU's


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


def halves(calls: Batches) -> tuple[Batches, Batches]:
    """From the first decode call, as many decode calls on either side; TraceError if too few."""
    decode = np.flatnonzero(calls.decode)
    if len(decode) < 2 * calls.num_layers:
        raise TraceError(
            "the trace is too short to hold a half out",
            expected=f"at least {2 * calls.num_layers} decode layer calls",
            found=len(decode),
        )
    middle = int(decode[len(decode) // 2])
    return calls.part(int(decode[0]), middle), calls.part(middle, len(calls))


def busiest(calls: Batches, count: int) -> frozenset[int]:
    """The keys that most decode calls use."""
    in_decode = calls.keys[np.repeat(calls.decode, np.diff(calls.starts))]
    return frozenset(key for key, _ in Counter(in_decode.tolist()).most_common(count))


def pin_gain(calls: Batches, budget_bytes: int) -> PinGain:
    """Pins are the most used experts of the decode calls, as many as half of the budget holds.

    Each score starts with an empty cache. Raises TraceError where a half has no decode.
    """
    first, second = halves(calls)
    count = int(budget_bytes * PIN_SHARE) // int(calls.key_bytes.max())
    budget = Budget(budget_bytes)

    def score(rules: Rules) -> float:
        counts = run(second, "lru", budget, rules)
        return counts.hits[True] / counts.lookups[True]

    return PinGain(
        lru=score(DEMAND),
        held_out=score(Rules(pinned=busiest(first, count))),
        in_sample=score(Rules(pinned=busiest(second, count))),
        num_pins=count,
    )
