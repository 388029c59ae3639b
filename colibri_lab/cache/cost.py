"""From misses to seconds: what a hit ratio is worth depends on what a miss costs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, TraceError
from .policies import Policy
from .replay import Batches, steps


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

    def read_s(self, sizes: list[int]) -> float:
        """Seconds to read experts of these sizes: latencies overlap, bytes share the bandwidth."""
        waits = -(-len(sizes) // self.concurrency)
        return waits * self.latency_s + sum(sizes) / (self.gbps * 1e9)


@dataclass(frozen=True)
class TokenTimes:
    """Modelled seconds of every decode token.

    seconds : [tokens] float64.   loading_s : [tokens], the part of it that is reading experts.
    """

    seconds: NDArray[np.float64]
    loading_s: NDArray[np.float64]

    @property
    def tokens_per_s(self) -> float:
        return float(len(self.seconds) / self.seconds.sum())

    def percentile_s(self, percent: float) -> float:
        """Linear between the two nearest, NumPy's default."""
        return float(np.percentile(self.seconds, percent))


def token_times(
    calls: Batches, policy: Policy, budget_bytes: int, tier: Tier, layer_s: float
) -> TokenTimes:
    """Replay, and add up each decode token's layers.

    layer_s : seconds of one layer with its experts in memory: attention, experts, and the rest.
    A token is the decode layer calls from one visit of its first layer to the next; reading does
    not overlap with computing (that is what prefetching is for).
    Raises TraceError where the trace has no decode.
    """
    sizes = calls.key_bytes.tolist()
    seconds: list[float] = []
    loading: list[float] = []
    last = calls.num_experts * calls.num_layers
    for step in steps(calls, policy, budget_bytes):
        if not step.decode:
            continue
        layer = step.used[0] // calls.num_experts
        if layer <= last:
            seconds.append(0.0)
            loading.append(0.0)
        last = layer
        read_s = tier.read_s([sizes[key] for key in step.missed])
        loading[-1] += read_s
        seconds[-1] += read_s + layer_s
    if not seconds:
        raise TraceError("the trace has no decode tokens", expected="one or more", found=0)
    return TokenTimes(np.array(seconds), np.array(loading))
