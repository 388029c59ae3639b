"""The exact optimum: evict what is needed again last.

Source: Belady, A study of replacement algorithms, IBM Systems Journal 5(2), 1966. Exact where all
keys are of one size. The keys of the current batch stay whatever the policy, so what may be evicted
never depends on the policy, and the exchange argument holds as it stands.
"""

from __future__ import annotations

import heapq
from collections.abc import Container, Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

NEVER = np.iinfo(np.int64).max


def next_uses(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """[N] where each look-up's key is looked up next; NEVER where it is not."""
    order = np.argsort(keys, kind="stable")
    following = np.full(len(keys), NEVER)
    same = keys[order][1:] == keys[order][:-1]
    following[order[:-1][same]] = order[1:][same]
    return following


class Optimum:
    """A policy that knows the future: the look-ups that the replay will make, in order."""

    def __init__(self, lookups: NDArray[np.int64]) -> None:
        self._next: Sequence[int] = next_uses(lookups).tolist()
        self._position = 0
        self._due: dict[Hashable, int] = {}  # resident key -> its next use
        self._latest: list[tuple[int, Hashable]] = []  # (-next use, key); outdated ones are passed

    def on_hit(self, key: Hashable) -> None:
        self._use(key)

    def on_insert(self, key: Hashable) -> None:
        self._use(key)

    def on_evict(self, key: Hashable) -> None:
        del self._due[key]

    def victim(self, protected: Container[Hashable]) -> Hashable | None:
        passed, found = [], None
        while self._latest and found is None:
            entry = heapq.heappop(self._latest)
            due, key = -entry[0], entry[1]
            if self._due.get(key) != due:
                continue  # used again since, or evicted
            passed.append(entry)
            if key not in protected:
                found = key
        for entry in passed:
            heapq.heappush(self._latest, entry)
        return found

    def _use(self, key: Hashable) -> None:
        due = self._next[self._position]
        self._position += 1
        self._due[key] = due
        heapq.heappush(self._latest, (-due, key))
