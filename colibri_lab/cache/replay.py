"""Replaying a routing trace against an expert cache, each policy beside the exact optimum.

`loop` has the accounting. This module says how large the cache is, counts, and checks every run:
no policy reads less than the optimum, and none holds more than it may.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec

from ..errors import CheckFailed
from ..reference.trace import RoutingTrace
from .bound import area_misses, shrunk, without
from .budget import DEMAND, Budget, Rules, check_rules, most_bytes
from .calls import Batches, batches
from .catalog import POLICIES, make_policy
from .loop import Ahead, Pool, Step, steps
from .optimum import Optimum
from .policies import Policy
from .predictors import make_predictor

OPTIMUM = "belady"
FAST_FROM = 200_000  # look-ups; for fewer, loading compiled code takes longer than the plain loop


@dataclass(frozen=True)
class Replay:
    """What one policy did with one budget.

    budget_bytes, slots : the budget, one of them None.   per_layer : as the budget has it.
    hit_ratio, decode_hit_ratio, prefill_hit_ratio : of look-ups; nan where there was none.
    pin_hit_ratio, prefetch_hit_ratio, cache_hit_ratio : of all look-ups, those that found a pinned
    expert, one read ahead for them, any other; they add up to hit_ratio.
    bytes_read : of misses and of guesses;   prefetched_bytes : of guesses alone.
    peak_, mean_resident_bytes : over batches, after their eviction.
    regret : experts read over the fewest possible, less one; where that is a bound, at most so
    much.   exact : whether the fewest possible is known, or only a proven bound (unequal sizes).
    """

    policy: str
    budget_bytes: int | None
    slots: int | None
    per_layer: bool
    hit_ratio: float
    decode_hit_ratio: float
    prefill_hit_ratio: float
    cache_hit_ratio: float
    pin_hit_ratio: float
    prefetch_hit_ratio: float
    misses: int
    bytes_read: int
    prefetched_bytes: int
    peak_resident_bytes: int
    mean_resident_bytes: float
    regret: float
    exact: bool


@dataclass
class Counts:
    """hits, lookups : [prefill, decode].   resident_sum : over batches."""

    hits: list[int]
    lookups: list[int]
    pin_hits: int = 0
    prefetch_hits: int = 0
    prefetched: int = 0
    prefetched_bytes: int = 0
    bytes_read: int = 0
    peak: int = 0
    resident_sum: int = 0

    @property
    def misses(self) -> int:
        return sum(self.lookups) - sum(self.hits)


def replay(
    trace: RoutingTrace | Batches,
    policies: Sequence[str],
    budgets: Sequence[int | Budget],
    rules: Rules = DEMAND,
) -> list[Replay]:
    """Every policy at every budget, each with its regret against the optimum.

    policies : names in `POLICIES`, or ``belady`` for the optimum.   budgets : numbers are bytes.
    Raises InputError for an unknown policy, a budget under 1, pins that fill the budget;
    CheckFailed where a policy beats an exact optimum or holds more than it may: that would be a
    fault of this code.
    """
    calls = trace if isinstance(trace, Batches) else batches(trace)
    for name in policies:
        if name not in (*POLICIES, OPTIMUM):
            make_policy(name)  # raises, with the known ones
    results = []
    for given in budgets:
        budget = Budget.of(given)
        check_rules(calls, budget, rules)
        results += _at_budget(calls, policies, budget, rules)
    return results


def _at_budget(
    calls: Batches, policies: Sequence[str], budget: Budget, rules: Rules
) -> list[Replay]:
    demand = replace(rules, predictor="", depth=0)
    exact = budget.in_slots or budget.per_layer or calls.equal_sizes
    best = run(calls, OPTIMUM, budget, demand) if exact or OPTIMUM in policies else None
    least = best.misses if exact and best else _bound(calls, budget, demand)
    most = most_bytes(calls, budget, rules)
    results = []
    for name in policies:
        counts = best if name == OPTIMUM and best else run(calls, name, budget, rules)
        _check(name, counts, least, most)
        results.append(_result(name, budget, counts, least, exact, len(calls)))
    return results


def _bound(calls: Batches, budget: Budget, demand: Rules) -> int:
    """No policy reads less often; reading ahead only takes choices away."""
    free = without(calls, demand.pinned) if demand.pinned else calls
    pinned = len(demand.pinned & set(calls.keys.tolist()))
    if not len(free):
        return pinned
    small = run(shrunk(free), OPTIMUM, budget, replace(demand, pinned=frozenset()))
    return pinned + max(small.misses, area_misses(free, budget.amount, demand.bypass))


def pools(calls: Batches, name: str, budget: Budget, rules: Rules = DEMAND) -> list[Pool]:
    """The cache as `loop.steps` takes it."""
    weights = budget.weights(calls)
    rooms = budget.rooms(calls)
    return [
        Pool(_policy(calls, name, layer, budget), weights, room, rules.pinned, rules.bypass)
        for layer, room in enumerate(rooms)
    ]


def steps_of(calls: Batches, name: str, budget: Budget, rules: Rules = DEMAND) -> Iterator[Step]:
    """The plain loop, batch after batch, of a policy by name."""
    ahead = Ahead(make_predictor(rules.predictor, calls), rules.depth) if rules.predictor else None
    return steps(calls, pools(calls, name, budget, rules), ahead)


def run(calls: Batches, name: str, budget: Budget, rules: Rules = DEMAND) -> Counts:
    """Replay once by name: compiled where that is worth its while, with the same counts."""
    simple = rules == DEMAND and not budget.per_layer and (not budget.in_slots or calls.equal_sizes)
    if simple and name in ("lru", OPTIMUM) and len(calls.keys) >= FAST_FROM and find_spec("numba"):
        return _compiled(calls, name, budget)
    return run_plain(calls, name, budget, rules)


def run_plain(calls: Batches, name: str, budget: Budget, rules: Rules = DEMAND) -> Counts:
    """Replay once by name in the plain loop."""
    sizes = calls.key_bytes.tolist()
    counts = Counts([0, 0], [0, 0])
    for step in steps_of(calls, name, budget, rules):
        counts.lookups[step.decode] += len(step.used)
        counts.hits[step.decode] += len(step.used) - len(step.missed)
        counts.pin_hits += len(step.pinned)
        counts.prefetch_hits += len(step.found_ahead)
        counts.prefetched += len(step.read_ahead)
        counts.prefetched_bytes += sum(sizes[key] for key in step.read_ahead)
        counts.bytes_read += sum(sizes[key] for key in step.missed + step.read_ahead)
        counts.peak = max(counts.peak, step.held_bytes)
        counts.resident_sum += step.held_bytes
    return counts


def _policy(calls: Batches, name: str, layer: int, budget: Budget) -> Policy:
    if name != OPTIMUM:
        return make_policy(name)
    return Optimum((calls.of_layer(layer) if budget.per_layer else calls).keys)


def _compiled(calls: Batches, name: str, budget: Budget) -> Counts:
    from .fast import replay_lru, replay_optimum

    amount = budget.amount * int(calls.key_bytes[0]) if budget.in_slots else budget.amount
    replayed = replay_optimum if name == OPTIMUM else replay_lru
    found = replayed(calls.keys, calls.starts, calls.key_bytes, amount, calls.decode)
    return Counts(
        hits=list(found.hits),
        lookups=list(found.lookups),
        bytes_read=found.bytes_read,
        peak=found.peak_bytes,
        resident_sum=found.resident_sum,
    )


def _check(name: str, counts: Counts, least: int, most: int) -> None:
    """CheckFailed where a policy reads less than can be, or holds more than it may."""
    if counts.misses + counts.prefetched < least:
        raise CheckFailed(
            f"{name} beat the optimum",
            expected=f"{least} experts read or more",
            found=counts.misses + counts.prefetched,
        )
    if counts.peak > most:
        raise CheckFailed(
            f"{name} held more than it may",
            expected=f"at most {most:,} bytes",
            found=f"{counts.peak:,}",
        )


def _result(
    name: str, budget: Budget, counts: Counts, least: int, exact: bool, num_batches: int
) -> Replay:
    lookups, hits = sum(counts.lookups), sum(counts.hits)
    return Replay(
        policy=name,
        budget_bytes=None if budget.in_slots else budget.amount,
        slots=budget.amount if budget.in_slots else None,
        per_layer=budget.per_layer,
        hit_ratio=_ratio(hits, lookups),
        decode_hit_ratio=_ratio(counts.hits[1], counts.lookups[1]),
        prefill_hit_ratio=_ratio(counts.hits[0], counts.lookups[0]),
        cache_hit_ratio=_ratio(hits - counts.pin_hits - counts.prefetch_hits, lookups),
        pin_hit_ratio=_ratio(counts.pin_hits, lookups),
        prefetch_hit_ratio=_ratio(counts.prefetch_hits, lookups),
        misses=counts.misses,
        bytes_read=counts.bytes_read,
        prefetched_bytes=counts.prefetched_bytes,
        peak_resident_bytes=counts.peak,
        mean_resident_bytes=counts.resident_sum / num_batches,
        regret=(counts.misses + counts.prefetched) / least - 1.0 if least else 0.0,
        exact=exact,
    )


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")
