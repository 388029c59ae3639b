"""The exact optimum: evict what is needed again last.

Source: Belady, A study of replacement algorithms, IBM Systems Journal 5(2), 1966. Exact where all
keys are of one size. The keys of the current batch stay whatever the policy, so what may be evicted
never depends on the policy, and the exchange argument holds as it stands.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from .ranked import Ranked

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
        self._resident = Ranked()

    def on_hit(self, key: Hashable) -> None:
        self._use(key)

    def on_insert(self, key: Hashable) -> None:
        self._use(key)

    def on_evict(self, key: Hashable) -> None:
        del self._resident[key]

    def victim(self, protected: Container[Hashable]) -> Hashable | None:
        return self._resident.lowest(protected)

    def _use(self, key: Hashable) -> None:
        # Of keys that are never used again the least goes first.
        self._resident[key] = (-self._next[self._position], key)
        self._position += 1
