"""The key-value cache."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ShapeError


@dataclass
class KVCache:
    """Keys and values of the positions seen so far, a layer.

    keys, values : per layer, [B, num_kv_heads, S, head_dim] float64.
    """

    keys: dict[int, NDArray[Any]] = field(default_factory=dict)
    values: dict[int, NDArray[Any]] = field(default_factory=dict)

    @property
    def length(self) -> int:
        """Positions held."""
        return self.layer_length(next(iter(self.keys), 0))

    def layer_length(self, layer: int) -> int:
        """Positions held of one layer."""
        return int(self.keys[layer].shape[2]) if layer in self.keys else 0

    def append(
        self, layer: int, keys: NDArray[Any], values: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Add new positions to a layer and return all of them.

        Raises ShapeError where the cache holds another batch, or another model's heads.
        """
        if layer in self.keys:
            _check_alike(self.keys[layer], keys)
            keys = np.concatenate([self.keys[layer], keys], axis=2)
            values = np.concatenate([self.values[layer], values], axis=2)
        self.keys[layer], self.values[layer] = keys, values
        return keys, values


def _check_alike(held: NDArray[Any], new: NDArray[Any]) -> None:
    batch, heads, _, head_dim = new.shape
    if held.shape[:2] + held.shape[3:] != (batch, heads, head_dim):
        raise ShapeError(
            "the key-value cache does not fit the new tokens",
            expected="batch {}, {} heads of {}".format(*held.shape[:2], held.shape[3]),
            found=f"batch {batch}, {heads} heads of {head_dim}",
            hint="go on with the sequences and the model that the cache is from",
        )
