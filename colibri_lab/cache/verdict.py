"""A verdict in words: is the policy at fault, or the working set, and what to change first.

Rules with stated thresholds over replays of one trace; never more than the trace supports.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import TraceError
from ..reference.trace import RoutingTrace
from .catalog import make_policy
from .cost import Tier, token_times
from .curves import PinGain, cliff_bytes, pin_gain
from .prefetch import PREDICTORS, PrefetchResult, score_prefetch
from .replay import OPTIMUM, Batches, Replay, batches, replay

ONLINE = ("lru", "lfu", "lfu-decay", "s3-fifo", "arc", "clock")
BOUND_BY_SET = 0.5  # even the optimum hits less: the working set is too large
WORTH_POINTS = 0.02  # a change of hit ratio that is worth a change of code
POLICY_POINTS = 0.10  # the best online policy this far below the optimum: the policy is at fault
FEW_TOKENS = 256  # decode tokens under which the verdict is called provisional
NO_DECODE = "The trace has no decode: there is nothing to say of hits and seconds a token."
MARKS = {  # in a trace's source -> what it means for the verdict
    "teacher-forced": "routing of reading, not of writing (teacher-forced)",
    "synthetic": "made-up routing (synthetic)",
}


@dataclass(frozen=True)
class Change:
    """Something to change, and the modelled seconds a token after it."""

    name: str
    seconds: float


@dataclass(frozen=True)
class Verdict:
    """sentences : what the replays say.   results : every policy at the budget.
    changes : seconds a token as it is, then after each change, the best first."""

    sentences: list[str]
    results: list[Replay]
    changes: list[Change]

    @property
    def text(self) -> str:
        return " ".join(self.sentences)


def verdict(
    trace: RoutingTrace, budget_bytes: int, tier: Tier, layer_s: float, current: str = "lru"
) -> Verdict:
    """Judge a cache of `budget_bytes` under the policy `current`.

    tier : where misses are read from.   layer_s : seconds of a layer with its experts in memory.
    """
    calls = batches(trace)
    if not calls.decode.any():
        return Verdict([NO_DECODE], replay(calls, [current, OPTIMUM], [budget_bytes]), [])
    names = tuple(dict.fromkeys((current, *ONLINE)))
    results = replay(calls, [*names, OPTIMUM], [budget_bytes])
    by_name = {result.policy: result for result in results}
    pins = _pins(calls, budget_bytes)
    best_guess = _best_guess(calls, trace.top_k, tier, layer_s)
    changes = _changes(calls, by_name, budget_bytes, tier, layer_s, current)
    sentences = [
        _where(calls, by_name, budget_bytes, current),
        _fault(by_name, current),
        _on_pins(pins),
        _on_prefetch(best_guess, tier),
        _first(changes),
        _limits(trace, calls),
    ]
    return Verdict([sentence for sentence in sentences if sentence], results, changes)


def _where(calls: Batches, by_name: dict[str, Replay], budget: int, current: str) -> str:
    now = by_name[current].decode_hit_ratio
    text = f"With {_mib(budget)}, {current} finds {now:.1%} of the experts of decode in memory."
    cliff = cliff_bytes(calls)
    if cliff is None:
        return f"{text} LRU never hits, whatever the budget: no expert comes back."
    if budget < cliff:
        return (
            f"{text} The budget is below the cliff at {_mib(cliff)}, about one token's cycle: "
            "under it LRU evicts every expert just before it comes back."
        )
    return f"{text} The cliff, below which LRU finds nothing, is at {_mib(cliff)}."


def _fault(by_name: dict[str, Replay], current: str) -> str:
    best = max(
        (r for name, r in by_name.items() if name != OPTIMUM), key=lambda r: r.decode_hit_ratio
    )
    optimum, now = by_name[OPTIMUM].decode_hit_ratio, by_name[current].decode_hit_ratio
    kind = "the exact optimum" if by_name[OPTIMUM].exact else "a clairvoyant heuristic"
    parts = [f"{kind[0].upper()}{kind[1:]} would find {optimum:.1%}."]
    if optimum < BOUND_BY_SET:
        parts.append(
            "That is less than half: the working set is too large for this budget, and no policy "
            "can mend it."
        )
    if optimum - best.decode_hit_ratio >= POLICY_POINTS:
        parts.append(
            f"{100 * (optimum - best.decode_hit_ratio):.0f} points lie between it and the best "
            f"policy without foresight ({best.policy}, {best.decode_hit_ratio:.1%}): "
            "better predictions could be worth that much."
        )
    gain = best.decode_hit_ratio - now
    if gain >= WORTH_POINTS:
        parts.append(f"Changing {current} for {best.policy} gains {100 * gain:.1f} points.")
    else:
        parts.append(f"No other policy here beats {current} by {100 * WORTH_POINTS:.0f} points.")
    return " ".join(parts)


def _pins(calls: Batches, budget: int) -> PinGain | None:
    try:
        return pin_gain(calls, budget)
    except TraceError:
        return None


def _on_pins(pins: PinGain | None) -> str:
    if pins is None:
        return "The trace is too short to say whether pins would hold on other text."
    held, sample = pins.held_out - pins.lru, pins.in_sample - pins.lru
    if held >= WORTH_POINTS:
        return (
            f"Pins chosen on the first half help on the second: {100 * held:.1f} points over LRU."
        )
    if sample >= WORTH_POINTS:
        return (
            f"Pins would not help: chosen on the first half they change the second by "
            f"{100 * held:+.1f} points, though chosen on the second itself they would promise "
            f"{100 * sample:+.1f}."
        )
    return "Pins would not help, not even chosen with hindsight."


def _best_guess(calls: Batches, top_k: int, tier: Tier, layer_s: float) -> PrefetchResult:
    results = [score_prefetch(calls, name, top_k, tier, layer_s) for name in PREDICTORS]
    return max(results, key=lambda result: np.nan_to_num(result.recall * result.in_time))


def _on_prefetch(guess: PrefetchResult, tier: Tier) -> str:
    saved = guess.useful_bytes * np.nan_to_num(guess.in_time) / (tier.gbps * 1e9)
    wasted = guess.wasted_bytes / (tier.gbps * 1e9)
    facts = (
        f"{guess.predictor} with {guess.depth} guesses a layer is right in {guess.accuracy:.0%}, "
        f"and {np.nan_to_num(guess.in_time):.0%} of the right ones come in time"
    )
    if saved > wasted:
        return f"Prefetching could pay: {facts}."
    return f"Prefetching would not pay: {facts}; wrong and late guesses read more than they save."


def _changes(
    calls: Batches,
    by_name: dict[str, Replay],
    budget: int,
    tier: Tier,
    layer_s: float,
    current: str,
) -> list[Change]:
    def seconds(name: str, size: int) -> float:
        return float(token_times(calls, make_policy(name), size, tier, layer_s).seconds.mean())

    online = [name for name in by_name if name not in (OPTIMUM, current)]
    best = max(online, key=lambda name: by_name[name].decode_hit_ratio)
    tried = [
        Change(f"{best} in place of {current}", seconds(best, budget)),
        Change(f"twice the memory under {current}", seconds(current, 2 * budget)),
    ]
    as_it_is = Change(f"{current} as it is", seconds(current, budget))
    return [as_it_is, *sorted(tried, key=lambda change: change.seconds)]


def _first(changes: Sequence[Change]) -> str:
    now, best = changes[0], changes[1]
    if now.seconds <= best.seconds * (1 + WORTH_POINTS):
        return (
            f"A token takes {now.seconds:.3g} s in the cost model, and neither another policy nor "
            "twice the memory changes that: look at what a miss costs, not at how many there are."
        )
    return (
        f"Change first: {best.name}, {now.seconds:.3g} to {best.seconds:.3g} s a token in the cost "
        "model."
    )


def _limits(trace: RoutingTrace, calls: Batches) -> str:
    tokens = int(calls.decode.sum()) // max(calls.num_layers, 1)
    limits = []
    if tokens < FEW_TOKENS:
        limits.append(f"{tokens} decode tokens")
    if len(np.unique(trace.request)) == 1:
        limits.append("one request")
    limits += [meaning for word, meaning in MARKS.items() if word in trace.source]
    if not limits:
        return ""
    return f"All this is provisional: the trace has {', '.join(limits)}."


def _mib(size: int) -> str:
    """Whole MiB, and three digits of what is under ten of them."""
    mib = size / 2**20
    return f"{mib:,.0f} MiB" if mib >= 10 else f"{mib:.3g} MiB"
