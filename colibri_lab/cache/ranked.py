"""Keys by rank, for policies whose victim is the key of the lowest rank."""

from __future__ import annotations

import heapq
from collections.abc import Container, Hashable
from typing import Any

SPARE = 64  # outdated entries that do not matter


class Ranked:
    """Resident keys, each with a rank; no two ranks are equal.

    A heap that keeps outdated entries until they come up: a change of rank is one push.
    """

    def __init__(self) -> None:
        self._rank: dict[Hashable, Any] = {}
        self._heap: list[tuple[Any, Hashable]] = []

    def __setitem__(self, key: Hashable, rank: Any) -> None:
        self._rank[key] = rank
        heapq.heappush(self._heap, (rank, key))
        if len(self._heap) > 4 * len(self._rank) + SPARE:
            self._heap = [(rank, key) for key, rank in self._rank.items()]
            heapq.heapify(self._heap)

    def __delitem__(self, key: Hashable) -> None:
        del self._rank[key]

    def __contains__(self, key: Hashable) -> bool:
        return key in self._rank

    def __iter__(self) -> Any:
        return iter(self._rank)

    def lowest(self, protected: Container[Hashable]) -> Hashable | None:
        """The key of the lowest rank that is not protected; None where all are."""
        passed, found = [], None
        while self._heap and found is None:
            entry = heapq.heappop(self._heap)
            rank, key = entry
            if self._rank.get(key) != rank:
                continue  # ranked anew since, or evicted
            passed.append(entry)
            if key not in protected:
                found = key
        for entry in passed:
            heapq.heappush(self._heap, entry)
        return found
