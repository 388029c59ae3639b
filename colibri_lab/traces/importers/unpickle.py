"""Pickles of plain containers and NumPy arrays of numbers, and of nothing else.

A pickle is a program. Here the names that it may call are stand-ins of our own, which check what
they are given; any other name is refused before anything runs, and so is a length that is larger
than the file.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import TraceError

MAX_BYTES = 1 << 28
# Opcodes that take objects from outside the file, and those whose argument is a size or an index.
REFUSED = {"PERSID", "BINPERSID", "EXT1", "EXT2", "EXT4", "NEXT_BUFFER"}
SIZED = {"PUT", "BINPUT", "LONG_BINPUT", "FRAME"}
KINDS = {f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)} | {"f4", "f8", "b1"}


def load(path: Path) -> Any:
    """What the file holds; TraceError, naming the name, where it asks for more than that."""
    size = path.stat().st_size
    if size > MAX_BYTES:
        raise TraceError(
            "the pickle is too large", path=path, expected=f"at most {MAX_BYTES} bytes", found=size
        )
    data = path.read_bytes()
    try:
        _scan(data)
        return _plain(_Restricted(io.BytesIO(data)).load())
    # An unpickler raises whatever the call it was told to make raises.
    except Exception as error:
        raise TraceError(
            "the pickle is refused",
            path=path,
            expected="plain containers, numbers, text, NumPy arrays of numbers",
            found=f"{error}"[:200] or type(error).__name__,
            hint="nothing of it was run; write the counts as JSON or .npy, and trust no such file",
        ) from error


def _scan(data: bytes) -> None:
    """Walk the opcodes without running them: every length fits, every memo index is small."""
    for opcode, argument, position in pickletools.genops(data):
        if opcode.name in REFUSED:
            raise ValueError(f"{opcode.name} at byte {position}")
        if opcode.name in SIZED and int(argument or 0) > len(data):
            raise ValueError(f"{opcode.name} {argument} at byte {position}")


class _Dtype:
    """A dtype of plain numbers; its state, which may say only the byte order."""

    def __init__(self, name: str, *_: object) -> None:
        if name not in KINDS:
            raise ValueError(f"dtype {str(name)[:40]}")
        self.dtype = np.dtype(name)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        if state[1] not in ("<", ">", "|", "="):
            raise ValueError(f"byte order {state[1]!r}")
        self.dtype = self.dtype.newbyteorder(state[1])


class _Array:
    """An array, made only once its bytes are there and as many as its shape says."""

    def __init__(self, *_: object) -> None:
        self.values: NDArray[Any] = np.zeros(0)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, dtype, fortran, raw = state
        self.values = _from_bytes(raw, dtype, shape, "F" if fortran else "C")


def _from_bytes(raw: Any, dtype: Any, shape: Any, order: Any) -> NDArray[Any]:
    """[…] array of these bytes."""
    sound = isinstance(raw, bytes | bytearray) and isinstance(dtype, _Dtype) and order in ("C", "F")
    if not sound or math.prod(shape) * dtype.dtype.itemsize != len(raw):
        raise ValueError(f"an array of shape {str(shape)[:40]} in other bytes")
    return np.frombuffer(raw, dtype.dtype).reshape(shape, order=order)


def _from_buffer(raw: Any, dtype: Any, shape: Any, order: Any) -> _Array:
    array = _Array()
    array.values = _from_bytes(raw, dtype, shape, order)
    return array


def _scalar(dtype: Any, raw: Any) -> int | float:
    value: int | float = _from_bytes(raw, dtype, (), "C").item()
    return value


def _encode(text: str, encoding: str = "latin1") -> bytes:
    if encoding not in ("latin1", "latin-1"):
        raise ValueError(f"encoding {encoding[:40]}")
    return text.encode("latin1")


class _Mapping(dict[Any, Any]):
    """Counter, defaultdict and OrderedDict: entries given as one dict, or set one by one."""

    def __init__(self, given: Any = None, *_: object) -> None:
        super().__init__(given if isinstance(given, dict) else {})

    def __setstate__(self, state: Any) -> None:
        raise ValueError("a container with attributes")


class _Call:
    """A function that a pickle may call, and may not change."""

    __slots__ = ("run",)

    def __init__(self, run: Callable[..., Any]) -> None:
        self.run = run

    def __call__(self, *arguments: Any) -> Any:
        return self.run(*arguments)

    def __setstate__(self, state: Any) -> None:
        raise ValueError("a change to a function")


def _never(*_: Any) -> None:
    raise ValueError("a call of a builtin")


def _names() -> dict[tuple[str, str], Callable[..., Any]]:
    """(module, name) -> what stands in for it."""
    found: dict[tuple[str, str], Callable[..., Any]] = {
        ("numpy", "ndarray"): _Array,
        ("numpy", "dtype"): _Dtype,
        ("_codecs", "encode"): _Call(_encode),
    }
    for core in ("numpy.core", "numpy._core"):
        found[f"{core}.multiarray", "_reconstruct"] = _Array
        found[f"{core}.multiarray", "scalar"] = _Call(_scalar)
        found[f"{core}.numeric", "_frombuffer"] = _Call(_from_buffer)
    for name in ("Counter", "OrderedDict", "defaultdict"):
        found["collections", name] = _Mapping
    for module in ("builtins", "__builtin__"):  # a defaultdict names its factory
        for name in ("dict", "float", "int", "list"):
            found[module, name] = _Call(_never)
    return found


class _Restricted(pickle.Unpickler):
    names = _names()

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.names:
            raise ValueError(f"the name {module}.{name}")
        return self.names[module, name]


def _plain(value: Any) -> Any:
    """The array within a stand-in, on the first two levels, where counts are."""
    if isinstance(value, dict):
        return {key: _inner(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_inner(item) for item in value]
    return _inner(value)


def _inner(value: Any) -> Any:
    return value.values if isinstance(value, _Array) else value
