"""What a kernel is called with, for checks and profiles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

SENTINEL = 0xA5  # every byte of what a kernel is to write, before it runs


@dataclass(frozen=True)
class Case:
    """Arguments of one launch, in the kernel's own order.

    arguments : name -> array, whole number, or None for a null pointer. Arrays that are only
    written have the values of `SENTINEL`.
    writes : names of what the kernel writes; all other arrays must stay as they are.
    written : name -> how much of it, in elements from its start, is to be written: no more may be.
    any_order : names that may come in any order within each expert's rows.
    """

    label: str
    arguments: Mapping[str, Any]
    writes: tuple[str, ...]
    written: Mapping[str, int] = field(default_factory=dict)
    any_order: tuple[str, ...] = ()

    @property
    def sizes(self) -> dict[str, int]:
        """The whole numbers among the arguments."""
        return {name: int(v) for name, v in self.arguments.items() if isinstance(v, int)}

    @property
    def least_bytes(self) -> int:
        """Each array once, of weights the experts that have rows: what must be moved at least."""
        arrays = {name: v for name, v in self.arguments.items() if isinstance(v, np.ndarray)}
        return sum(self._needed(name, array) * array.itemsize for name, array in arrays.items())

    def _needed(self, name: str, array: NDArray[Any]) -> int:
        offsets = self.arguments.get("expert_offsets")
        if offsets is not None and array.ndim == 3:
            return int(np.count_nonzero(np.diff(offsets))) * int(np.prod(array.shape[1:]))
        return self.written.get(name, array.size)


def unwritten(shape: tuple[int, ...] | int, dtype: Any) -> NDArray[Any]:
    """An array that shows what is left of it unwritten."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return np.full(size, SENTINEL, np.uint8).view(dtype).reshape(shape)
