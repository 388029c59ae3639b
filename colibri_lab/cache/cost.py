"""From misses to seconds: what a hit ratio is worth depends on what a miss costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, TraceError
from .budget import DEMAND, Budget, Rules, check_rules
from .calls import Batches
from .loop import Ahead, Pool, Step, steps
from .policies import LRU
from .predictors import make_predictor
from .replay import pools


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
        # Written so that not-a-number fails, too.
        if not (self.gbps > 0 and self.latency_s >= 0 and self.concurrency >= 1):
            raise InputError(
                "a tier makes no sense",
                expected="gbps over 0, latency_s 0 or more, concurrency 1 or more",
                found=str(self),
            )

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
        if not (0 <= self.layer_s < float("inf") and 0 <= self.cpu_gbps < float("inf")):
            raise InputError(
                "costs make no sense",
                expected="layer_s and cpu_gbps of 0 or more",
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
    """Seconds of the layer calls of decode, token by token."""

    costs: Costs
    sizes: list[int]
    host: Pool
    seconds: list[float] = field(default_factory=list)
    loading_s: list[float] = field(default_factory=list)
    missed: int = 0
    absorbed: int = 0

    def add(self, step: Step, starts_token: bool) -> None:
        ahead_disk_s = self._from_disk(step.read_ahead)
        disk_s = self._from_disk(step.missed)
        if not step.decode:
            return
        if starts_token:
            self.seconds.append(0.0)
            self.loading_s.append(0.0)
        # Guesses are read while the layer before computes; what is not done by then is waited for.
        ahead_s = ahead_disk_s + self.costs.tier.read_s(self._sizes(step.read_ahead))
        read_s, absorbed = self.costs.shared_s(self._sizes(step.missed))
        wait_s = max(ahead_s - self.costs.layer_s, 0.0) + disk_s + read_s
        self.missed += len(step.missed)
        self.absorbed += absorbed
        self.loading_s[-1] += wait_s
        self.seconds[-1] += wait_s + self.costs.layer_s

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

    A token is the decode layer calls from one visit of its first layer to the next. Reading waits
    for the router and computing for reading, but for guesses that are read ahead: they have one
    layer's time, and are not cancelled. What the CPU computes is cached as if it had been moved.
    Raises TraceError where the trace has no decode.
    """
    room = budget if isinstance(budget, Budget) else Budget(budget)
    check_rules(calls, room, rules)
    ahead = Ahead(make_predictor(rules.predictor, calls), rules.depth) if rules.predictor else None
    sizes = calls.key_bytes.tolist()
    clock = _Clock(costs, sizes, Pool(LRU(), sizes, costs.host_bytes))
    last = calls.num_layers
    for step in steps(calls, pools(calls, policy, room, rules), ahead):
        layer = step.used[0] // calls.num_experts
        clock.add(step, starts_token=layer <= last)
        last = layer if step.decode else calls.num_layers
    if not clock.seconds:
        raise TraceError("the trace has no decode tokens", expected="one or more", found=0)
    return TokenTimes(
        seconds=np.array(clock.seconds),
        loading_s=np.array(clock.loading_s),
        absorbed=clock.absorbed / clock.missed if clock.missed else 0.0,
    )
