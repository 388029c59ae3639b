"""Reading a checkpoint's tensors, or only checking that they are what they should be."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike

from ..errors import FormatError, ModelError
from ..formats import mxfp4
from ..formats.safetensors_io import BYTES, Array, CheckpointFiles


class TensorReader(Protocol):
    """What the families read through."""

    def __contains__(self, name: str) -> bool: ...

    def read(self, name: str, shape: tuple[int, ...], index: int | None = None) -> Array:
        """The tensor, or its part [index]; shape is the whole tensor's."""
        ...

    def read_mxfp4(self, name: str, shape: tuple[int, ...], index: int | None = None) -> Array:
        """The same of a tensor that is stored as ``<name>_blocks`` and ``<name>_scales``."""
        ...


def mxfp4_parts(name: str, shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """Name -> shape of the tensors that hold blocks and scales; the last axis is in blocks."""
    if shape[-1] % mxfp4.BLOCK_SIZE:
        raise ModelError(
            f"tensor {name} does not divide into blocks of MXFP4",
            expected=f"a multiple of {mxfp4.BLOCK_SIZE}",
            found=shape[-1],
        )
    scales = (*shape[:-1], shape[-1] // mxfp4.BLOCK_SIZE)
    return {f"{name}_blocks": (*scales, mxfp4.BLOCK_BYTES), f"{name}_scales": scales}


@dataclass(frozen=True)
class ValueReader:
    """Reads values, refuses those that are not finite, and gives them as `dtype`."""

    files: CheckpointFiles
    dtype: DTypeLike

    def __contains__(self, name: str) -> bool:
        return name in self.files

    def read(self, name: str, shape: tuple[int, ...], index: int | None = None) -> Array:
        return self._checked(name, self.files.read(name, shape, index))

    def read_mxfp4(self, name: str, shape: tuple[int, ...], index: int | None = None) -> Array:
        parts = mxfp4_parts(name, shape).items()
        blocks, scales = (self.files.read(part, size, index, BYTES) for part, size in parts)
        return self._checked(name, mxfp4.decode(blocks, scales))

    def _checked(self, name: str, tensor: Array) -> Array:
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
        return self._counted(name, shape, index)

    def read_mxfp4(self, name: str, shape: tuple[int, ...], index: int | None = None) -> Array:
        for part, size in mxfp4_parts(name, shape).items():
            self.files.check(part, size, BYTES)
            self._counted(part, size, index)
        return _empty(shape, index)

    def _counted(self, name: str, shape: tuple[int, ...], index: int | None) -> Array:
        whole = self.files.num_bytes(name)
        self.num_bytes[name] = whole if index is None else whole // shape[0]
        return _empty(shape, index)


def _empty(shape: tuple[int, ...], index: int | None) -> Array:
    empty: np.ndarray[Any, Any] = np.broadcast_to(np.float32(0), shape)
    return empty if index is None else empty[index]
