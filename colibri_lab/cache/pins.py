"""Pins that a policy finds by itself; pins chosen beforehand are told to the replay."""

from __future__ import annotations

from collections.abc import Container, Hashable
from dataclasses import dataclass

from .policies import LRU, Policy


@dataclass(frozen=True)
class _Both:
    """Protected by the batch, or pinned."""

    one: Container[Hashable]
    two: Container[Hashable]

    def __contains__(self, key: object) -> bool:
        return key in self.one or key in self.two


class PinThree:
    """A key that hits three times in a row, with no miss of its own between, is pinned.

    Pins may take half of the cache; a new one then replaces the oldest. `behind` orders the rest.
    The description of the Colibri engine says no more than "three in a row is pinned".
    """

    ROW = 3

    def __init__(self, behind: Policy | None = None) -> None:
        self._behind = behind or LRU()
        self._row: dict[Hashable, int] = {}  # resident key -> hits in a row
        self._pinned: dict[Hashable, None] = {}  # the oldest first

    def on_hit(self, key: Hashable) -> None:
        self._behind.on_hit(key)
        self._row[key] += 1
        if self._row[key] >= self.ROW and key not in self._pinned:
            self._pinned[key] = None
            if len(self._pinned) > len(self._row) // 2:
                del self._pinned[next(iter(self._pinned))]

    def on_insert(self, key: Hashable) -> None:
        self._behind.on_insert(key)
        self._row[key] = 0

    def on_evict(self, key: Hashable) -> None:
        self._behind.on_evict(key)
        del self._row[key]
        self._pinned.pop(key, None)

    def victim(self, protected: Container[Hashable]) -> Hashable | None:
        found = self._behind.victim(_Both(protected, self._pinned))
        return self._behind.victim(protected) if found is None else found
