"""Reading a checkpoint's tensors, or only checking that they are what they should be."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike

from ..errors import FormatError
from ..formats.safetensors_io import Array, CheckpointFiles


class TensorReader(Protocol):
    """What the families read through."""

    def __contains__(self, name: str) -> bool: ...

    def read(self, name: str, shape: tuple[int, ...], index: int | None = None) -> Array:
        """The tensor, or its part [index]; shape is the whole tensor's."""
        ...


@dataclass(frozen=True)
class ValueReader:
    """Reads values, refuses those that are not finite, and gives them as `dtype`."""

    files: CheckpointFiles
    dtype: DTypeLike

    def __contains__(self, name: str) -> bool:
        return name in self.files

    def read(self, name: str, shape: tuple[int, ...], index: int | None = None) -> Array:
        tensor = self.files.read(name, shape, index)
        # isfinite does not know bfloat16; widening to float32 is exact.
        wide = tensor.astype(np.float32) if tensor.dtype.itemsize < 4 else tensor
        if not np.isfinite(wide).all():
            bad = int(np.count_nonzero(~np.isfinite(wide)))
            raise FormatError(
                f"tensor {name} has values that are not finite",
                path=self.files.path,
                expected="finite weights",
                found=f"{bad} NaN or infinity of {wide.size}",
                hint="colibri-lab inspect --verify lists every such tensor",
            )
        return wide.astype(self.dtype, copy=False)


@dataclass(frozen=True)
class CheckingReader:
    """Reads no values: checks a tensor's presence, dtype and shape, and counts its bytes.

    What it gives has the right shape and takes no memory. Loading a model through it checks the
    whole checkpoint with the very code that will read it.
    """

    files: CheckpointFiles
    num_bytes: dict[str, int] = field(default_factory=dict)

    def __contains__(self, name: str) -> bool:
        return name in self.files

    def read(self, name: str, shape: tuple[int, ...], index: int | None = None) -> Array:
        self.files.check(name, shape)
        whole = self.files.num_bytes(name)
        self.num_bytes[name] = whole if index is None else whole // shape[0]
        empty: np.ndarray[Any, Any] = np.broadcast_to(np.float32(0), shape)
        return empty if index is None else empty[index]
