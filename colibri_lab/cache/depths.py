"""How deep in LRU's order each look-up finds its key: one pass for every size of cache."""

from __future__ import annotations

from typing import Any

import numpy as np

from .compiling import compiled

WORD_BITS, GROUP_BITS = 6, 5  # of a place in the window: which bit of a word, which word of a group
WORD, GROUP = 1 << WORD_BITS, 1 << GROUP_BITS


@compiled
def depths(keys: Any, starts: Any, num_keys: Any) -> Any:
    """[keys] int64, look-ups by how many other keys were used since theirs, in batches before.

    keys : [N] int64, under num_keys, a batch's distinct.   starts : [B+1] int64. First uses are not
    counted. Each use takes the next place of a window, and leaves a hole at the key's last. The
    places in use behind that are the depth. A full window is closed up.
    """
    places = 4 * num_keys
    for batch in range(len(starts) - 1):
        places = max(places, 4 * num_keys + starts[batch + 1] - starts[batch])
    groups = (places >> (WORD_BITS + GROUP_BITS)) + 1
    holes = np.zeros((groups, GROUP), np.uint64)
    in_group = np.zeros((groups, GROUP), np.int32)  # holes of the group's words before this one
    before = np.zeros(groups, np.int32)  # holes of the groups before this one
    owner = np.empty(groups * GROUP * WORD, np.int64)
    last = np.full(num_keys, -1, np.int64)
    found = np.zeros(num_keys, np.int64)
    head = live = 0
    for batch in range(len(starts) - 1):
        begin, end = starts[batch], starts[batch + 1]
        if head + end - begin > len(owner):
            head = _close_up(owner, last, head)
            holes[:] = 0
            in_group[:] = 0
            before[:] = 0
        for position in range(begin, end):
            place = last[keys[position]]
            if place >= 0:
                found[live - (place + 1) + _holes_below(place, holes, in_group, before)] += 1
        for position in range(begin, end):
            key = keys[position]
            if last[key] >= 0:
                _leave(last[key], holes, in_group, before)
            else:
                live += 1
            last[key] = head
            owner[head] = key
            head += 1
    return found


@compiled
def _split(place: Any) -> Any:
    """Group, word in it, bit in that; by shifts, since a division would be rounded at a cost."""
    group, word = place >> (WORD_BITS + GROUP_BITS), (place >> WORD_BITS) & (GROUP - 1)
    return group, word, np.uint64(place & (WORD - 1))


@compiled
def _holes_below(place: Any, holes: Any, in_group: Any, before: Any) -> Any:
    group, word, bit = _split(place)
    below = holes[group, word] & ((np.uint64(1) << bit) - np.uint64(1))
    return before[group] + in_group[group, word] + _ones(below)


@compiled
def _leave(place: Any, holes: Any, in_group: Any, before: Any) -> None:
    """Make a hole, and count it ahead of time for all that follows: a few vectors, no branch."""
    group, word, bit = _split(place)
    holes[group, word] |= np.uint64(1) << bit
    row = in_group[group]
    for other in range(GROUP):
        row[other] += np.int32(other > word)
    for other in range(len(before)):
        before[other] += np.int32(other > group)


@compiled
def _ones(word: Any) -> Any:
    """Bits that are set. Source: Knuth, The Art of Computer Programming 4A, 7.1.3."""
    word -= (word >> np.uint64(1)) & np.uint64(0x5555555555555555)
    pairs = np.uint64(0x3333333333333333)
    word = (word & pairs) + ((word >> np.uint64(2)) & pairs)
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@compiled
def _close_up(owner: Any, last: Any, head: Any) -> Any:
    """Move what is in use to the front, in order; how many places that takes."""
    front = 0
    for place in range(head):
        key = owner[place]
        if last[key] == place:
            owner[front] = key
            last[key] = front
            front += 1
    return front
