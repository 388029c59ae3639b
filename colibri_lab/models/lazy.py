"""A sequence whose items are made when they are asked for, and not kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")


class LazySequence(Sequence[Item], Generic[Item]):
    """length items; item i is make(i), anew at each use."""

    def __init__(self, length: int, make: Callable[[int], Item]) -> None:
        self._length = length
        self._make = make

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: Any) -> Any:
        if not isinstance(index, int):
            raise TypeError("a lazy sequence is indexed by a whole number")
        if not -self._length <= index < self._length:
            raise IndexError(index)
        return self._make(index % self._length)
