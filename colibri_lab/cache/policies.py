"""Eviction policies.

A policy only orders keys. Whoever runs it keeps the counters, the clock and the bytes, and asks for
a victim when room is needed. A new policy is one class here and one row of the test table.
"""

from __future__ import annotations

import random
from collections import Counter, OrderedDict
from collections.abc import Container, Hashable
from typing import Protocol

from .ranked import Ranked


class Policy(Protocol):
    """What a cache tells its policy, and what it asks."""

    def on_hit(self, key: Hashable) -> None:
        """A resident key was used again."""

    def on_insert(self, key: Hashable) -> None:
        """A key became resident."""

    def on_evict(self, key: Hashable) -> None:
        """A key is resident no more."""

    def victim(self, protected: Container[Hashable]) -> Hashable | None:
        """The resident key to evict next that is not protected; None where all are."""


class LRU:
    """Evicts the key that was used longest ago."""

    def __init__(self) -> None:
        self._order: OrderedDict[Hashable, None] = OrderedDict()  # the longest unused first

    def on_hit(self, key: Hashable) -> None:
        self._order.move_to_end(key)

    def on_insert(self, key: Hashable) -> None:
        self._order[key] = None

    def on_evict(self, key: Hashable) -> None:
        del self._order[key]

    def victim(self, protected: Container[Hashable]) -> Hashable | None:
        return next((key for key in self._order if key not in protected), None)


class FIFO(LRU):
    """Evicts the key that has been resident longest, used or not."""

    def on_hit(self, key: Hashable) -> None:
        pass


class CLOCK:
    """FIFO with a second chance: a key that was used since the hand last passed is passed once.

    Source: Corbato, A paging experiment with the Multics system, 1968.
    """

    def __init__(self) -> None:
        self._used: OrderedDict[Hashable, bool] = OrderedDict()  # where the hand is comes first

    def on_hit(self, key: Hashable) -> None:
        self._used[key] = True

    def on_insert(self, key: Hashable) -> None:
        self._used[key] = False

    def on_evict(self, key: Hashable) -> None:
        del self._used[key]

    def victim(self, protected: Container[Hashable]) -> Hashable | None:
        # Two rounds at the most: after the first, no key has its second chance left.
        for _ in range(2 * len(self._used)):
            key, used = next(iter(self._used.items()))
            if not used and key not in protected:
                return key
            self._used[key] = used and key in protected
            self._used.move_to_end(key)
        return None


class LFU:
    """Evicts the key with the fewest uses since the replay began; of those, the longest unused.

    Uses are remembered after an eviction: a favourite that was pushed out comes back as one.
    """

    def __init__(self) -> None:
        self._uses: Counter[Hashable] = Counter()
        self._now = 0
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
        self._now += 1
        self._uses[key] += 1
        self._resident[key] = (self._uses[key], self._now)


class Random:
    """Evicts any key, by a seeded draw: what a policy must beat to be worth its name."""

    def __init__(self, seed: int = 0) -> None:
        self._generator = random.Random(seed)
        self._resident: dict[Hashable, None] = {}

    def on_hit(self, key: Hashable) -> None:
        pass

    def on_insert(self, key: Hashable) -> None:
        self._resident[key] = None

    def on_evict(self, key: Hashable) -> None:
        del self._resident[key]

    def victim(self, protected: Container[Hashable]) -> Hashable | None:
        free = [key for key in self._resident if key not in protected]
        return self._generator.choice(free) if free else None
