"""One pass for every size of cache, for policies that keep with more room all they keep with less.

LRU, LFU and the optimum rank keys the same whatever the room, so one list holds all caches at once:
its first n keys are what a cache of n has. A used key goes to the top, and each key on the way down
to where it was either stays or takes the next one's place, whichever ranks higher.
Source: Mattson et al., Evaluation techniques for storage hierarchies, IBM Systems Journal 9(2),
1970. Import this module where it is needed: it needs numba.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .calls import Batches
from .compiling import compiled
from .curves import ONE_PASS
from .fast import lru_curve
from .optimum import next_uses

PROTECTED = np.iinfo(np.int64).max


def stack_hits(calls: Batches, policy: str, *, decode_only: bool = False) -> NDArray[np.int64]:
    """[S+1] int64, look-ups that hit with room for 0 to S experts; S is how many are used.

    policy : of `ONE_PASS`.   decode_only : count the hits of decode calls alone.
    Equal to a replay from as many slots up as the largest batch has keys: with fewer, what the
    current batch holds beyond its room makes an order of its own. Raises InputError for a policy
    that is no stack.
    """
    if policy not in ONE_PASS:
        raise InputError(
            "not a stack policy", expected=f"one of {', '.join(ONE_PASS)}", found=policy
        )
    used, keys = np.unique(calls.keys, return_inverse=True)
    if policy == "lru" and not decode_only:
        return len(keys) - lru_curve(keys, calls.starts)
    counted = calls.decode if decode_only else np.ones(len(calls), np.bool_)
    ranks = _ranks(keys, policy)
    hits = _depths(keys, calls.starts, counted, ranks, len(used))
    return np.concatenate([[0], np.cumsum(hits)])


def _ranks(keys: NDArray[np.int64], policy: str) -> NDArray[np.int64]:
    """[N] the rank that a look-up gives its key until it is used again; the lowest goes first.

    Ties as the policies have them: LFU's longest unused goes, the optimum's least key.
    """
    num = len(keys)
    position = np.arange(num, dtype=np.int64)
    if policy == "lru":
        return position
    if policy == "belady":
        following = next_uses(keys)
        return -np.where(following < num, following, num + int(keys.max(initial=0)) - keys)
    order = np.argsort(keys, kind="stable")
    begins = np.flatnonzero(np.diff(keys[order], prepend=-1))
    uses = np.empty(num, np.int64)
    uses[order] = position - np.repeat(begins, np.diff(begins, append=num))
    return uses * num + position


@compiled
def _depths(keys: Any, starts: Any, counted: Any, ranks: Any, num_keys: Any) -> Any:
    """[num_keys] look-ups that found their key at each place of the list."""
    found = np.zeros(num_keys, np.int64)
    stack = np.empty(num_keys, np.int64)
    rank = np.zeros(num_keys, np.int64)
    known = np.zeros(num_keys, np.bool_)
    height = 0
    for batch in range(len(starts) - 1):
        begin, end = starts[batch], starts[batch + 1]
        for position in range(begin, end):  # all of a batch is looked up before any of it moves
            if counted[batch] and known[keys[position]]:
                found[_place(stack, keys[position])] += 1
        for position in range(begin, end):
            key = keys[position]
            rank[key] = PROTECTED  # the batch's own keys outrank all others
            _to_top(stack, height, rank, key)
            height += not known[key]
            known[key] = True
        for position in range(begin, end):
            rank[keys[position]] = ranks[position]
    return found


@compiled
def _place(stack: Any, key: Any) -> Any:
    place = 0
    while stack[place] != key:
        place += 1
    return place


@compiled
def _to_top(stack: Any, height: Any, rank: Any, key: Any) -> None:
    """Put a key on top; on the way down to its own place the higher rank stays at each."""
    carried = key
    for place in range(height):
        there = stack[place]
        if there == key:
            stack[place] = carried
            return
        if rank[there] < rank[carried]:
            stack[place] = carried
            carried = there
    stack[height] = carried
