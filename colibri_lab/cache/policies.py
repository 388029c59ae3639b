"""Eviction policies.

A policy only orders keys. Whoever runs it keeps the counters, the clock and the bytes, and asks for
a victim when room is needed. A new policy is one class here and one row of the test table.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Container, Hashable
from typing import Protocol

from ..errors import InputError


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


POLICIES: dict[str, Callable[[], Policy]] = {"lru": LRU}


def make_policy(name: str) -> Policy:
    """A fresh policy by name; InputError lists the known ones."""
    if name not in POLICIES:
        raise InputError(
            "cache policy is not known", expected=f"one of {', '.join(POLICIES)}", found=name
        )
    return POLICIES[name]()
