"""From misses to seconds: what a hit ratio is worth depends on what a miss costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, TraceError
from .budget import DEMAND, Budget, Rules, check_rules
from .calls import Batches
from .loop import Pool, Step
from .policies import LRU
from .replay import steps_of

MOST_S = 86_400.0  # of a latency, or of one layer: a day; beyond are slips, and sums that overflow
LEAST_GBPS = 1e-12  # a byte in a quarter of an hour


@dataclass(frozen=True)
class Tier:
    """Where experts are read from.

    gbps : 1e9 bytes a second, all requests together.   latency_s : until a request's first byte.
    concurrency : requests that are under way at once.
    """

    gbps: float
    latency_s: float = 0.0
    concurrency: int = 1

    def __post_init__(self) -> None:
        if not self._makes_sense():
            raise InputError(
                "a tier makes no sense",
                expected=f"gbps of {LEAST_GBPS:g} or more, latency_s of 0 to {MOST_S:,.0f}, "
                "a whole concurrency of 1 or more",
                found=str(self),
            )

    def _makes_sense(self) -> bool:
        values: dict[str, Any] = vars(self)
        if not all(isinstance(value, Real) for value in values.values()):
            return False
        if not isinstance(values["concurrency"], Integral) or self.concurrency < 1:
            return False
        # Written so that not-a-number fails, too.
        return self.gbps >= LEAST_GBPS and 0 <= self.latency_s <= MOST_S

    def read_s(self, sizes: Sequence[int]) -> float:
        """Seconds to read experts of these sizes: latencies overlap, bytes share the bandwidth."""
        waits = -(-len(sizes) // self.concurrency)
        return waits * self.latency_s + sum(sizes) / (self.gbps * 1e9)


@dataclass(frozen=True)
class Costs:
    """What a layer costs, and what a miss adds to it.

    tier : what the cache reads from: disk into memory, or host memory into a device's.
    layer_s : seconds of one layer with its experts in the cache: attention, experts, and the rest.
    disk, host_bytes : where the tier is host memory that does not hold all experts: what its own
    LRU cache of so many bytes misses is read from this disk first. None: the tier holds all.
    cpu_gbps : the CPU computes a missed expert where it lies at this rate, 1e9 bytes of weights a
    second, while others are read; 0: it does not.
    """

    tier: Tier
    layer_s: float
    disk: Tier | None = None
    host_bytes: int = 0
    cpu_gbps: float = 0.0

    def __post_init__(self) -> None:
        computes = self.cpu_gbps == 0 or LEAST_GBPS <= self.cpu_gbps < float("inf")
        if not (0 <= self.layer_s <= MOST_S and computes):
            raise InputError(
                "costs make no sense",
                expected=f"layer_s of 0 to {MOST_S:,.0f}, cpu_gbps of 0, or {LEAST_GBPS:g} or more",
                found=f"{self.layer_s} and {self.cpu_gbps}",
            )
        if self.disk is not None and self.host_bytes < 1:
            raise InputError(
                "a disk behind host memory needs its size",
                expected="host_bytes of 1 or more",
                found=self.host_bytes,
            )

    def shared_s(self, sizes: Sequence[int]) -> tuple[float, int]:
        """Seconds until these are read or computed by the CPU, whichever split is soonest; how
        many the CPU takes, the smallest first."""
        order = sorted(sizes)
        most = len(order) if self.cpu_gbps else 0
        return min(
            (max(self._cpu_s(order[:taken]), self.tier.read_s(order[taken:])), taken)
            for taken in range(most + 1)
        )

    def _cpu_s(self, sizes: Sequence[int]) -> float:
        return sum(sizes) / (self.cpu_gbps * 1e9) if sizes else 0.0


@dataclass(frozen=True)
class TokenTimes:
    """Modelled seconds of every decode token.

    seconds : [tokens] float64.   loading_s : [tokens], the part of it that waits for experts.
    absorbed : of the experts that missed, the share that the CPU computed where they lay.
    """

    seconds: NDArray[np.float64]
    loading_s: NDArray[np.float64]
    absorbed: float

    @property
    def mean_s(self) -> float:
        return float(self.seconds.mean())

    @property
    def tokens_per_s(self) -> float:
        total = float(self.seconds.sum())
        return len(self.seconds) / total if total else float("inf")

    def percentile_s(self, percent: float) -> float:
        """Linear between the two nearest, NumPy's default."""
        return float(np.percentile(self.seconds, percent))


@dataclass
class _Clock:
    """Seconds of the layer calls of decode.   seconds, loading_s : a token each."""

    costs: Costs
    sizes: list[int]
    host: Pool
    seconds: list[float]
    loading_s: list[float]
    missed: int = 0
    absorbed: int = 0

    def add(self, step: Step, token: int) -> None:
        ahead_disk_s = self._from_disk(step.read_ahead)
        disk_s = self._from_disk(step.missed)
        if not step.decode:
            return
        # Guesses are read while the layer before computes; what is not done by then is waited for.
        ahead_s = ahead_disk_s + self.costs.tier.read_s(self._sizes(step.read_ahead))
        read_s, absorbed = self.costs.shared_s(self._sizes(step.missed))
        wait_s = max(ahead_s - self.costs.layer_s, 0.0) + disk_s + read_s
        self.missed += len(step.missed)
        self.absorbed += absorbed
        self.loading_s[token] += wait_s
        self.seconds[token] += wait_s + self.costs.layer_s

    def _from_disk(self, keys: Sequence[int]) -> float:
        """Seconds of what host memory does not hold."""
        if self.costs.disk is None:
            return 0.0
        missed = self.host.use(keys)
        self.host.settle(set(keys))
        return self.costs.disk.read_s(self._sizes(missed))

    def _sizes(self, keys: Sequence[int]) -> list[int]:
        return [self.sizes[key] for key in keys]


def token_times(
    calls: Batches, policy: str, budget: Budget | int, costs: Costs, rules: Rules = DEMAND
) -> TokenTimes:
    """Replay, and add up each decode token's layers.

    A token is what `Batches.tokens` takes as one. Reading waits for the router and computing for
    reading, but for guesses that are read ahead: they have one layer's time, and are not cancelled.
    What the CPU computes is cached as if it had been moved.
    Raises TraceError where the trace has no decode.
    """
    room = Budget.of(budget)
    check_rules(calls, room, rules)
    sizes = calls.key_bytes.tolist()
    tokens = calls.tokens().tolist()
    count = max(tokens, default=-1) + 1
    if not count:
        raise TraceError("the trace has no decode tokens", expected="one or more", found=0)
    clock = _Clock(costs, sizes, Pool(LRU(), sizes, costs.host_bytes), [0.0] * count, [0.0] * count)
    replayed = steps_of(calls, policy, room, rules)
    for step, token in zip(replayed, tokens, strict=True):
        clock.add(step, token)
    return TokenTimes(
        seconds=np.array(clock.seconds),
        loading_s=np.array(clock.loading_s),
        absorbed=clock.absorbed / clock.missed if clock.missed else 0.0,
    )
