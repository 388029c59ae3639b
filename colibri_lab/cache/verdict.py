"""A verdict in words: is the policy at fault, or the working set, and what to change first.

Rules with stated thresholds over replays of one trace; never more than the trace supports.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import TraceError
from ..reference.trace import RoutingTrace
from .budget import Rules
from .calls import Batches, batches
from .cost import Costs, TokenTimes, token_times
from .curves import cliff_bytes
from .held_out import PinGain, pin_gain
from .predictors import known_predictors
from .prefetch import PrefetchResult, score_prefetch
from .replay import OPTIMUM, Replay, replay

ONLINE = ("lru", "lfu", "lfu-decay", "s3-fifo", "arc", "clock")
BOUND_BY_SET = 0.5  # even the optimum hits less: the working set is too large
WORTH_POINTS = 0.02  # a change of hit ratio, or of seconds, that is worth a change of code
POLICY_POINTS = 0.10  # the best online policy this far below the optimum: foresight is worth it
FEW_TOKENS = 256  # decode tokens under which the verdict is called provisional
NO_DECODE = "The trace has no decode: there is nothing to say of hits and seconds a token."
MARKS = {  # in a trace's source -> what it means for the verdict
    "teacher-forced": "routing of reading, not of writing (teacher-forced)",
    "synthetic": "made-up routing (synthetic)",
}


@dataclass(frozen=True)
class Change:
    """Something to change, and the modelled seconds a token after it: mean, p50 and p99."""

    name: str
    mean_s: float
    p50_s: float
    p99_s: float


@dataclass(frozen=True)
class Verdict:
    """sentences : what the replays say.   labels : of below-the-cliff, working-set-bound,
    policy-bound, those that hold.   results : every policy at the budget.
    changes : seconds a token as it is, then after each change, the best first."""

    sentences: list[str]
    labels: list[str]
    results: list[Replay]
    changes: list[Change]

    @property
    def text(self) -> str:
        return " ".join(self.sentences)


def verdict(trace: RoutingTrace, budget_bytes: int, costs: Costs, current: str = "lru") -> Verdict:
    """Judge a cache of `budget_bytes`, all layers together, under the policy `current`."""
    calls = batches(trace)
    if not calls.decode.any():
        return Verdict([NO_DECODE], [], replay(calls, [current, OPTIMUM], [budget_bytes]), [])
    names = tuple(dict.fromkeys((current, *ONLINE)))
    results = replay(calls, [*names, OPTIMUM], [budget_bytes])
    by_name = {result.policy: result for result in results}
    cliff = cliff_bytes(calls)
    guess, with_it = _best_guess(calls, trace.top_k, budget_bytes, costs, current)
    changes = [
        _change(f"{current} as it is", token_times(calls, current, budget_bytes, costs)),
        *_tried(calls, by_name, budget_bytes, costs, current),
        _change(f"reading ahead by {guess.predictor}", with_it),
    ]
    changes[1:] = sorted(changes[1:], key=lambda change: change.mean_s)
    sentences = [
        _where(by_name, budget_bytes, current, cliff),
        _fault(by_name, current),
        _on_pins(_pins(calls, budget_bytes)),
        _on_prefetch(guess, changes[0].mean_s, with_it.mean_s),
        _first(changes),
        _limits(trace, calls),
    ]
    labels = _labels(by_name, current)
    return Verdict([sentence for sentence in sentences if sentence], labels, results, changes)


def _labels(by_name: dict[str, Replay], current: str) -> list[str]:
    optimum, now = by_name[OPTIMUM].decode_hit_ratio, by_name[current].decode_hit_ratio
    holds = {
        "below-the-cliff": _below(by_name),
        "working-set-bound": optimum < BOUND_BY_SET,
        "policy-bound": _best(by_name).decode_hit_ratio - now >= WORTH_POINTS,
    }
    return [label for label, true in holds.items() if true]


def _below(by_name: dict[str, Replay]) -> bool:
    """Below the cliff LRU finds nothing. A batch that uses what the one before did finds that even
    in less room than an expert takes."""
    return by_name["lru"].decode_hit_ratio == 0


def _best(by_name: dict[str, Replay]) -> Replay:
    """The policy without foresight that hits most in decode."""
    online = (result for name, result in by_name.items() if name != OPTIMUM)
    return max(online, key=lambda result: result.decode_hit_ratio)


def _where(by_name: dict[str, Replay], budget: int, current: str, cliff: int | None) -> str:
    now = by_name[current].decode_hit_ratio
    text = f"With {_mib(budget)}, {current} finds {now:.1%} of the experts of decode in memory."
    if cliff is None:
        return f"{text} LRU never hits, whatever the budget: no expert comes back."
    if _below(by_name):
        return (
            f"{text} The budget is below the cliff at {_mib(cliff)}, about one token's cycle: "
            "under it LRU evicts every expert just before it comes back."
        )
    if budget < cliff:
        return f"{text} The budget is below one expert: LRU finds what was used just before."
    return f"{text} The cliff, below which LRU finds nothing, is at {_mib(cliff)}."


def _fault(by_name: dict[str, Replay], current: str) -> str:
    best, optimum = _best(by_name), by_name[OPTIMUM]
    now = by_name[current].decode_hit_ratio
    parts = [_on_optimum(optimum)]
    if optimum.decode_hit_ratio < BOUND_BY_SET:
        parts.append(
            "That is less than half: the working set is too large for this budget, and no policy "
            "can mend it."
        )
    short = optimum.decode_hit_ratio - best.decode_hit_ratio
    if short >= POLICY_POINTS:
        parts.append(
            f"{100 * short:.0f} points lie between it and the best policy without foresight "
            f"({best.policy}, {best.decode_hit_ratio:.1%}): better predictions could be worth "
            "that much."
        )
    gain = best.decode_hit_ratio - now
    if gain >= WORTH_POINTS:
        parts.append(
            f"The policy is at fault as well: changing {current} for {best.policy} gains "
            f"{100 * gain:.1f} points."
        )
    else:
        parts.append(f"No other policy here beats {current} by {100 * WORTH_POINTS:.0f} points.")
    return " ".join(parts)


def _on_optimum(optimum: Replay) -> str:
    found = f"{optimum.decode_hit_ratio:.1%}"
    if optimum.exact:
        return f"The exact optimum, which misses least over the whole trace, would find {found}."
    return (
        f"With foresight it would be {found} (Belady's rule; experts differ in size, so it is no "
        f"exact optimum, but no policy can read under {1 / (1 + optimum.regret):.1%} of what it "
        "reads)."
    )


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


def _best_guess(
    calls: Batches, top_k: int, budget: int, costs: Costs, current: str
) -> tuple[PrefetchResult, TokenTimes]:
    """Of the predictors the one that makes tokens fastest, with top-k guesses a layer."""
    times = {
        name: token_times(calls, current, budget, costs, Rules(predictor=name, depth=top_k))
        for name in known_predictors(calls)
    }
    best = min(times, key=lambda name: times[name].mean_s)
    return score_prefetch(calls, best, top_k, budget, costs, current), times[best]


def _on_prefetch(guess: PrefetchResult, now: float, after: float) -> str:
    facts = (
        f"a token takes {now:.3g} s without and {after:.3g} s with {guess.predictor} and "
        f"{guess.depth} guesses a layer, {guess.accuracy:.0%} of them right; of what it reads "
        f"{_share(guess.useful_bytes, guess.wasted_bytes):.0%} is used, and "
        f"{np.nan_to_num(guess.in_time):.0%} of that in time"
    )
    if after * (1 + WORTH_POINTS) <= now:
        return f"Prefetching would pay: {facts}."
    return f"Prefetching would not pay: {facts}."


def _share(part: int, rest: int) -> float:
    return part / (part + rest) if part + rest else 0.0


def _tried(
    calls: Batches, by_name: dict[str, Replay], budget: int, costs: Costs, current: str
) -> list[Change]:
    """Another policy, and more memory."""
    best = _best({name: each for name, each in by_name.items() if name != current}).policy
    return [
        _change(f"{best} in place of {current}", token_times(calls, best, budget, costs)),
        _change(
            f"twice the memory under {current}", token_times(calls, current, 2 * budget, costs)
        ),
    ]


def _change(name: str, times: TokenTimes) -> Change:
    return Change(name, times.mean_s, times.percentile_s(50), times.percentile_s(99))


def _first(changes: Sequence[Change]) -> str:
    now, best = changes[0], changes[1]
    if now.mean_s <= best.mean_s * (1 + WORTH_POINTS):
        return (
            f"A token takes {now.mean_s:.3g} s in the cost model, and neither another policy, nor "
            "twice the memory, nor reading ahead changes that: look at what a miss costs, not at "
            "how many there are."
        )
    return (
        f"Change first: {best.name}, {now.mean_s:.3g} to {best.mean_s:.3g} s a token in the cost "
        "model."
    )


def _limits(trace: RoutingTrace, calls: Batches) -> str:
    tokens = int(calls.tokens().max()) + 1
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
