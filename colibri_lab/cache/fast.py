"""Long replays, compiled: LRU, the exact optimum, and LRU's whole curve.

The same accounting, and the same counts, as the plain loop of `replay`, which stays the truth. Keys
are dense, so that a plain array says when each was used last, or is next. Import this module
where it is needed: it needs numba, and compiles on its first use on a machine (some seconds; then
the code is on disk).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .compiling import compiled
from .depths import depths

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

HITS, BYTES_READ, PEAK, RESIDENT_SUM = 0, 2, 3, 4  # of a kernel's counts; hits of both phases


class Tally(NamedTuple):
    """What a replay counted.

    hits, lookups : (prefill, decode).   bytes_read : of misses.
    peak_bytes, resident_sum : of what is resident after a batch's eviction; the sum over batches.
    """

    hits: tuple[int, int]
    lookups: tuple[int, int]
    bytes_read: int
    peak_bytes: int
    resident_sum: int
    num_batches: int

    @property
    def misses(self) -> int:
        return sum(self.lookups) - sum(self.hits)

    @property
    def mean_bytes(self) -> float:
        return self.resident_sum / self.num_batches if self.num_batches else float("nan")


def replay_lru(
    keys: Ints, starts: Ints, sizes: Ints, budget: int, decode: Flags | None = None
) -> Tally:
    """Replay with the key evicted that was used longest ago.

    keys : [N] int64, under len(sizes), a batch's distinct.   starts : [B+1] int64, from 0 to N.
    sizes : [keys] int64, bytes.   budget : bytes.   decode : [B] bool; None: all of them.
    Raises InputError where keys, starts, sizes and decode do not belong together.
    """
    return _replay(_lru, keys, starts, sizes, budget, decode)


def replay_optimum(
    keys: Ints, starts: Ints, sizes: Ints, budget: int, decode: Flags | None = None
) -> Tally:
    """Replay with the key evicted that is needed again last; arguments as of `replay_lru`.

    Exact where all sizes are equal. Source: as in `optimum`.
    """
    return _replay(_optimum, keys, starts, sizes, budget, decode)


def lru_curve(keys: Ints, starts: Ints) -> Ints:
    """[S+1] int64, LRU's misses with room for 0 to S keys of one size, S being the largest key + 1.

    keys, starts : as of `replay_lru`. Equal to a replay from as many slots up as the largest batch
    has keys: with fewer, what the current batch holds beyond its room makes an order of its own.
    Source: Mattson et al., Evaluation techniques for storage hierarchies, IBM Systems Journal
    9(2), 1970: a look-up hits where fewer keys than there is room were used since its last.
    """
    num_keys = int(keys.max()) + 1 if len(keys) else 0
    decode = np.ones(len(starts) - 1, np.bool_)
    _check(keys, starts, num_keys, decode)
    hits = np.cumsum(depths(keys, starts, num_keys))
    return len(keys) - np.concatenate([[0], hits])


def _replay(
    kernel: Callable[..., Ints],
    keys: Ints,
    starts: Ints,
    sizes: Ints,
    budget: int,
    decode: Flags | None,
) -> Tally:
    phase = np.ones(len(starts) - 1, np.bool_) if decode is None else decode
    _check(keys, starts, len(sizes), phase)
    # Counted in what divides all sizes: a sum of bytes over all batches would overflow.
    unit = max(int(np.gcd.reduce(sizes)), 1)
    room = min(budget, int(sizes.sum())) // unit
    counts = kernel(keys, starts, sizes // unit, room, phase).tolist()
    in_decode = int(np.diff(starts)[phase].sum())
    return Tally(
        hits=(counts[HITS], counts[HITS + 1]),
        lookups=(len(keys) - in_decode, in_decode),
        bytes_read=counts[BYTES_READ] * unit,
        peak_bytes=counts[PEAK] * unit,
        resident_sum=counts[RESIDENT_SUM] * unit,
        num_batches=len(phase),
    )


def _check(keys: Ints, starts: Ints, num_keys: int, decode: Flags) -> None:
    """Compiled code looks at no index, so what would lead it astray is refused here."""
    if len(keys) and not (int(keys.min()) >= 0 and int(keys.max()) < num_keys):
        raise InputError(
            "a key has no size",
            expected=f"keys from 0 to {num_keys - 1}",
            found=f"{keys.min()} to {keys.max()}",
        )
    sound = len(starts) == len(decode) + 1 and starts[0] == 0 and starts[-1] == len(keys)
    if not sound or (starts[1:] < starts[:-1]).any():
        raise InputError(
            "starts do not cut the keys into batches",
            expected=f"{len(decode) + 1} positions from 0 up to {len(keys)}",
            found=f"{len(starts)}, from {starts[:1]} to {starts[-1:]}",
        )


@compiled
def _lru(keys: Any, starts: Any, sizes: Any, budget: Any, decode: Any) -> Any:
    """The look-ups themselves are the queue: a key's place in it is where it was used last.

    Whatever was used last before `oldest` is resident no more.
    """
    counts = np.zeros(5, np.int64)
    last = np.full(len(sizes), -1, np.int64)
    oldest = held = read = peak = total = 0
    for batch in range(len(starts) - 1):
        begin, end = starts[batch], starts[batch + 1]
        hits = 0
        for position in range(begin, end):
            key = keys[position]
            if last[key] >= oldest:
                hits += 1
            else:
                read += sizes[key]
                held += sizes[key]
            last[key] = position
        while held > budget and oldest < begin:
            key = keys[oldest]
            if last[key] == oldest:
                held -= sizes[key]
            oldest += 1
        counts[HITS + decode[batch]] += hits
        peak = max(peak, held)
        total += held
    counts[BYTES_READ], counts[PEAK], counts[RESIDENT_SUM] = read, peak, total
    return counts


@compiled
def _next_uses(keys: Any, num_keys: Any) -> Any:
    """[N] where each key is looked up next; N or more where never, more for the lesser key.

    So no two are equal, and of the keys that are not needed again the least goes first, as in
    `Optimum`.
    """
    num = len(keys)
    following = np.empty(num, np.int64)
    seen = num + num_keys - 1 - np.arange(num_keys)
    for position in range(num - 1, -1, -1):
        key = keys[position]
        following[position] = seen[key]
        seen[key] = position
    return following


@compiled
def _push(heap: Any, size: Any, item: Any) -> Any:
    """Add to a heap that has its greatest first; its new size."""
    child = size
    while child > 0:
        parent = (child - 1) >> 1
        if heap[parent] >= item:
            break
        heap[child] = heap[parent]
        child = parent
    heap[child] = item
    return size + 1


@compiled
def _drop(heap: Any, size: Any) -> Any:
    """Take the greatest away: its place sinks to a leaf, where the last item comes in."""
    size -= 1
    item = heap[size]
    place, child = 0, 1
    while child < size:
        if child + 1 < size and heap[child + 1] > heap[child]:
            child += 1
        heap[place] = heap[child]
        place, child = child, 2 * child + 1
    while place > 0 and heap[(place - 1) >> 1] < item:
        heap[place] = heap[(place - 1) >> 1]
        place = (place - 1) >> 1
    heap[place] = item
    return size


@compiled
def _rebuild(heap: Any, due: Any, held: Any) -> Any:
    """A heap of the next uses of what is held, without outdated ones; its size."""
    size = 0
    for key in range(len(due)):
        if held[key]:
            size = _push(heap, size, due[key])
    return size


@compiled
def _optimum(keys: Any, starts: Any, sizes: Any, budget: Any, decode: Any) -> Any:
    """A heap of next uses. Those of the batch enter after its eviction, which must spare them.

    An entry before the batch is outdated, and so are all below it.
    """
    num, num_keys = len(keys), len(sizes)
    counts = np.zeros(5, np.int64)
    following = _next_uses(keys, num_keys)
    due = np.full(num_keys, -1, np.int64)
    resident = np.zeros(num_keys, np.bool_)
    largest = 0
    for batch in range(len(starts) - 1):
        largest = max(largest, starts[batch + 1] - starts[batch])
    room = 4 * num_keys
    heap = np.empty(room + largest, np.int64)
    size = held = read = peak = total = 0
    for batch in range(len(starts) - 1):
        begin, end = starts[batch], starts[batch + 1]
        hits = 0
        for position in range(begin, end):
            key = keys[position]
            if resident[key]:
                hits += 1
            else:
                resident[key] = True
                read += sizes[key]
                held += sizes[key]
            due[key] = following[position]
        while held > budget and size > 0 and heap[0] >= end:
            latest = heap[0]
            size = _drop(heap, size)
            key = keys[latest] if latest < num else num + num_keys - 1 - latest
            resident[key] = False
            held -= sizes[key]
        if size + end - begin > room:
            size = _rebuild(heap, due, resident)
        else:
            for position in range(begin, end):
                size = _push(heap, size, following[position])
        counts[HITS + decode[batch]] += hits
        peak = max(peak, held)
        total += held
    counts[BYTES_READ], counts[PEAK], counts[RESIDENT_SUM] = read, peak, total
    return counts
