"""Read-only views of a mapped file, each checked against the file as it is now."""

from __future__ import annotations

import mmap
import os
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..errors import FormatError


class MappedFile:
    """A file mapped for reading.

    A file that shrinks while it is mapped would end the process (SIGBUS) when a lost page is
    touched; every view therefore asks for the file's size first. Between that check and the use of
    the view the file must not be cut short.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._handle = os.open(path, os.O_RDONLY)
        except OSError as error:
            raise FormatError(
                "the file cannot be opened", path=path, found=error.strerror
            ) from error
        self._close_handle = weakref.finalize(self, os.close, self._handle)
        self.size = os.fstat(self._handle).st_size
        if self.size == 0:
            self._close_handle()
            raise FormatError("the file is empty", path=path, expected="a header", found="0 bytes")
        try:
            self._map = mmap.mmap(self._handle, 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            self._close_handle()
            raise FormatError("the file cannot be mapped", path=path, found=str(error)) from error

    def bytes(self, offset: int, count: int) -> bytes:
        """A copy of `count` bytes; FormatError where the file does not have them."""
        self._check(offset, count)
        return self._map[offset : offset + count]

    def view(self, offset: int, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """A zero-copy read-only array; FormatError where the file does not have its bytes."""
        kind = np.dtype(dtype)
        count = int(np.prod(shape, dtype=object))
        self._check(offset, count * kind.itemsize)
        return np.frombuffer(self._map, kind, count, offset).reshape(shape)

    def _check(self, offset: int, count: int) -> None:
        size = os.fstat(self._handle).st_size
        if size < self.size:
            raise _shrunken(self.path, self.size, size)
        if offset < 0 or count < 0 or offset + count > self.size:
            raise FormatError(
                "a part lies outside the file",
                path=self.path,
                offset=offset,
                expected=f"{count:,} bytes from {offset:,}",
                found=f"a file of {self.size:,} bytes",
            )

    def close(self) -> None:
        """Let go of the file; views that are still held keep the mapping alive."""
        # An array that still looks into the mapping forbids unmapping; it goes with the last one.
        with suppress(BufferError):
            self._map.close()
        self._close_handle()


def check_not_shrunk(path: Path, before: os.stat_result) -> None:
    """FormatError where a file that another library maps lost its end; see `MappedFile`.

    before : of the file when it was mapped. One that was deleted, or replaced by another of its
        name, stays mapped as it was.
    """
    try:
        now = path.stat()
    except FileNotFoundError:
        return
    if os.path.samestat(now, before) and now.st_size < before.st_size:
        raise _shrunken(path, before.st_size, now.st_size)


def _shrunken(path: Path, before: int, now: int) -> FormatError:
    return FormatError(
        "the file has shrunk since it was opened",
        path=path,
        expected=f"{before:,} bytes",
        found=f"{now:,} bytes",
        hint="write to another file and rename it, never over a file in use",
    )
