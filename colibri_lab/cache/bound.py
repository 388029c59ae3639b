"""A proven bound on what any policy can do where experts differ in size.

With unequal sizes the exact optimum is out of reach (it is NP-hard). Two relaxations bound it from
below; the better of them is taken.

1. Every expert shrunk to the smallest: whatever a cache can hold, the shrunk cache can hold, and
   there Belady is exact.
2. Space and time as one: a hit needs its expert in memory from one use to the next, and over the
   whole trace no more bytes times batches are to be had than the budget times the batches. The
   hits that need the fewest come first. Source: Berger, Beckmann and Harchol-Balter, Practical
   bounds on optimal caching with variable object sizes, SIGMETRICS 2018 (PFOO-L).

Pinned experts stay even where there is no room for them, so both leave them out: each is read once,
and takes no room.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

import numpy as np

from .calls import Batches
from .optimum import NEVER, next_uses

SLACK = 1e-9  # floating-point sums must not make the bound tighter than it is


def without(calls: Batches, keys: Set[int]) -> Batches:
    """The look-ups of all other keys; batches that are left with none go."""
    kept = ~np.isin(calls.keys, list(keys))
    batch = np.repeat(np.arange(len(calls)), np.diff(calls.starts))[kept]
    lengths = np.bincount(batch, minlength=len(calls))
    return replace(
        calls,
        keys=calls.keys[kept],
        starts=np.concatenate([[0], np.cumsum(lengths[lengths > 0])]),
        decode=calls.decode[lengths > 0],
        guesses=None,
        steps=None,
    )


def shrunk(calls: Batches) -> Batches:
    """The same look-ups of experts that all have the size of the smallest that is used."""
    smallest = calls.key_bytes[calls.keys].min()
    return replace(calls, key_bytes=np.full_like(calls.key_bytes, smallest))


def area_misses(calls: Batches, budget_bytes: int, bypass: bool = False) -> int:
    """Misses that the second relaxation leaves, all layers in one cache.

    bypass : a batch's own experts may be evicted right after it. Else they stay over its eviction
    anyway, which takes their room and costs a hit nothing.
    """
    batch = np.repeat(np.arange(len(calls)), np.diff(calls.starts))
    following = next_uses(calls.keys)
    again = following != NEVER
    waits = batch[following[again]] - batch[again]
    sizes = calls.key_bytes[calls.keys]
    free = np.full(len(calls), min(budget_bytes, calls.used_bytes))
    if not bypass:
        waits -= 1
        free = np.maximum(free - np.add.reduceat(sizes, calls.starts[:-1]), 0)
    areas = np.cumsum(np.sort(sizes[again] * waits).astype(np.float64))
    hits = np.searchsorted(areas, free.sum(dtype=np.float64) * (1 + SLACK), side="right")
    return len(calls.keys) - int(hits)
