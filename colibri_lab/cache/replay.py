"""Replaying a routing trace against an expert cache.

The accounting: batches in order, a batch being one layer call; one look-up for each distinct expert
of the batch; a miss reads the expert's bytes; the cache is one budget over (layer, expert) entries;
eviction runs after the batch and never takes what the batch itself used. So no policy holds more
than its budget, but for what the current batch needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from ..errors import CheckFailed, InputError, TraceError
from ..reference.trace import DECODE, RoutingTrace
from .catalog import POLICIES, make_policy
from .optimum import Optimum
from .policies import Policy

OPTIMUM = "belady"
FAST_FROM = 200_000  # look-ups; for fewer, loading compiled code takes longer than the plain loop


@dataclass(frozen=True)
class Batches:
    """The look-ups of a trace.

    keys : [N] int64, layer * num_experts + expert, a batch's distinct ones in order of first use.
    starts : [B+1] int64, batch b has keys starts[b] to starts[b+1].
    decode : [B] bool.   key_bytes : [L * E] int64.   num_experts : E.
    """

    keys: NDArray[np.int64]
    starts: NDArray[np.int64]
    decode: NDArray[np.bool_]
    key_bytes: NDArray[np.int64]
    num_experts: int

    def __len__(self) -> int:
        return len(self.decode)

    @property
    def num_layers(self) -> int:
        return len(self.key_bytes) // self.num_experts

    def part(self, start: int, stop: int) -> Batches:
        """Batches start to stop alone."""
        first, last = self.starts[start], self.starts[stop]
        return Batches(
            keys=self.keys[first:last],
            starts=self.starts[start : stop + 1] - first,
            decode=self.decode[start:stop],
            key_bytes=self.key_bytes,
            num_experts=self.num_experts,
        )

    @property
    def largest_bytes(self) -> int:
        """Bytes that the largest batch needs at once."""
        sums = np.add.reduceat(self.key_bytes[self.keys], self.starts[:-1])
        return int(sums.max())

    def groups(self) -> Iterator[tuple[list[int], bool]]:
        """Each batch's keys, and whether it is of decode."""
        parts = np.split(self.keys, self.starts[1:-1])
        return zip((part.tolist() for part in parts), self.decode.tolist(), strict=True)


@dataclass(frozen=True)
class Replay:
    """What one policy did with one budget.

    hit_ratio, decode_hit_ratio, prefill_hit_ratio : of look-ups; nan where there was none.
    bytes_read : of misses.   peak_, mean_resident_bytes : over batches, after their eviction.
    regret : misses over the optimum's, less one; 0 for the optimum itself.
    exact : whether the optimum it is held against is exact, or (unequal sizes) a heuristic.
    """

    policy: str
    budget_bytes: int
    hit_ratio: float
    decode_hit_ratio: float
    prefill_hit_ratio: float
    misses: int
    bytes_read: int
    peak_resident_bytes: int
    mean_resident_bytes: float
    regret: float
    exact: bool


@dataclass
class _Counts:
    """hits, lookups : [prefill, decode]."""

    hits: list[int]
    lookups: list[int]
    bytes_read: int = 0
    peak: int = 0
    resident_sum: int = 0  # over batches

    @property
    def misses(self) -> int:
        return sum(self.lookups) - sum(self.hits)


def batches(trace: RoutingTrace) -> Batches:
    """The layer calls of a trace; TraceError where it has none or no sizes.

    A call ends where the layer or the phase changes, and in decode where the step does.
    """
    kept = trace.expert >= 0
    layer, expert = trace.layer[kept].astype(np.int64), trace.expert[kept].astype(np.int64)
    phase, step = trace.phase[kept], trace.step[kept]
    if not len(layer):
        raise TraceError("the trace is empty", expected="one assignment or more", found=0)
    if not all(size > 0 for size in trace.expert_bytes):
        raise TraceError(
            "the trace does not say how large experts are",
            expected="expert_bytes of every layer",
            found=list(trace.expert_bytes)[:4],
            hint="give --expert-bytes when it is imported",
        )
    changed = call_ends(layer, phase, step)
    call = np.concatenate([[0], np.cumsum(changed)])
    keys = layer * trace.num_experts + expert
    first = _first_in_call(call, keys)
    counts = np.bincount(call[first], minlength=call[-1] + 1)
    begins = np.concatenate([[0], np.flatnonzero(changed) + 1])
    return Batches(
        keys=keys[first],
        starts=np.concatenate([[0], np.cumsum(counts)]),
        decode=phase[begins] == DECODE,
        key_bytes=np.repeat(np.array(trace.expert_bytes, np.int64), trace.num_experts),
        num_experts=trace.num_experts,
    )


def call_ends(
    layer: NDArray[np.integer], phase: NDArray[np.uint8], step: NDArray[np.int32]
) -> NDArray[np.bool_]:
    """[N-1] bool, whether a layer call ends between an assignment and the next."""
    changed = (np.diff(layer) != 0) | (np.diff(phase) != 0)
    ended: NDArray[np.bool_] = changed | ((phase[1:] == DECODE) & (np.diff(step) != 0))
    return ended


def _first_in_call(call: NDArray[np.int64], keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Positions at which a call uses a key for the first time, in order."""
    combined = call * (int(keys.max()) + 1) + keys
    return np.sort(np.unique(combined, return_index=True)[1])


def replay(
    trace: RoutingTrace | Batches, policies: Sequence[str], budgets_bytes: Sequence[int]
) -> list[Replay]:
    """Every policy at every budget, each with its regret against the optimum.

    policies : names in `POLICIES`, or ``belady`` for the optimum.   budgets_bytes : of the cache.
    Raises InputError for an unknown policy or a budget under 1, CheckFailed where a policy beats
    an exact optimum or holds more than it may: that would be a fault of this code.
    """
    calls = trace if isinstance(trace, Batches) else batches(trace)
    for name in policies:
        if name not in (*POLICIES, OPTIMUM):
            make_policy(name)  # raises, with the known ones
    exact = bool((calls.key_bytes == calls.key_bytes[0]).all())
    largest = calls.largest_bytes
    results = []
    for budget in budgets_bytes:
        if budget < 1:
            raise InputError("a budget must be positive", expected="1 byte or more", found=budget)
        best = _run(calls, OPTIMUM, budget)
        for name in policies:
            counts = best if name == OPTIMUM else _run(calls, name, budget)
            _check(name, counts, best, exact, max(budget, largest))
            results.append(_result(name, budget, counts, best, exact, len(calls)))
    return results


@dataclass(frozen=True)
class Step:
    """One batch of a replay.

    used : its keys.   missed : those of them that were not resident.   decode : its phase.
    held_bytes : resident after its eviction.
    """

    used: list[int]
    missed: list[int]
    decode: bool
    held_bytes: int


def steps(calls: Batches, policy: Policy, budget_bytes: int) -> Iterator[Step]:
    """Replay batch after batch."""
    sizes = calls.key_bytes.tolist()
    resident: set[int] = set()
    held = 0
    for used, decode in calls.groups():
        missed = []
        for key in used:
            if key in resident:
                policy.on_hit(key)
            else:
                policy.on_insert(key)
                resident.add(key)
                missed.append(key)
                held += sizes[key]
        held = _evict(policy, resident, set(used), held, budget_bytes, sizes)
        yield Step(used, missed, decode, held)


def run_policy(calls: Batches, policy: Policy, budget_bytes: int) -> _Counts:
    """Replay once, and count."""
    sizes = calls.key_bytes.tolist()
    counts = _Counts([0, 0], [0, 0])
    for step in steps(calls, policy, budget_bytes):
        counts.lookups[step.decode] += len(step.used)
        counts.hits[step.decode] += len(step.used) - len(step.missed)
        counts.bytes_read += sum(sizes[key] for key in step.missed)
        counts.peak = max(counts.peak, step.held_bytes)
        counts.resident_sum += step.held_bytes
    return counts


def _run(calls: Batches, name: str, budget: int) -> _Counts:
    """Replay once by name: compiled where that is worth its while, with the same counts."""
    compiled = name in ("lru", OPTIMUM) and len(calls.keys) >= FAST_FROM
    if not compiled or find_spec("numba") is None:
        policy = Optimum(calls.keys) if name == OPTIMUM else make_policy(name)
        return run_policy(calls, policy, budget)
    from .fast import replay_lru, replay_optimum

    run = replay_optimum if name == OPTIMUM else replay_lru
    found = run(calls.keys, calls.starts, calls.key_bytes, budget, calls.decode)
    return _Counts(
        hits=list(found.hits),
        lookups=list(found.lookups),
        bytes_read=found.bytes_read,
        peak=found.peak_bytes,
        resident_sum=found.resident_sum,
    )


def _evict(
    policy: Policy, resident: set[int], used: set[int], held: int, budget: int, sizes: list[int]
) -> int:
    """Evict until the budget holds, or only the batch is left; returns the bytes held."""
    while held > budget:
        victim = policy.victim(used)
        if not isinstance(victim, int):
            break
        policy.on_evict(victim)
        resident.remove(victim)
        held -= sizes[victim]
    return held


def _check(name: str, counts: _Counts, best: _Counts, exact: bool, most_bytes: int) -> None:
    """CheckFailed where a policy beats an exact optimum, or holds more than it may."""
    if exact and counts.misses < best.misses:
        raise CheckFailed(
            f"{name} beat the optimum",
            expected=f"{best.misses} misses or more",
            found=counts.misses,
        )
    if counts.peak > most_bytes:
        raise CheckFailed(
            f"{name} held more than it may",
            expected=f"at most {most_bytes:,} bytes",
            found=f"{counts.peak:,}",
        )


def _result(
    name: str, budget: int, counts: _Counts, best: _Counts, exact: bool, num_batches: int
) -> Replay:
    return Replay(
        policy=name,
        budget_bytes=budget,
        hit_ratio=_ratio(sum(counts.hits), sum(counts.lookups)),
        decode_hit_ratio=_ratio(counts.hits[1], counts.lookups[1]),
        prefill_hit_ratio=_ratio(counts.hits[0], counts.lookups[0]),
        misses=counts.misses,
        bytes_read=counts.bytes_read,
        peak_resident_bytes=counts.peak,
        mean_resident_bytes=counts.resident_sum / num_batches,
        regret=_ratio(counts.misses - best.misses, best.misses) if best.misses else 0.0,
        exact=exact,
    )


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")
