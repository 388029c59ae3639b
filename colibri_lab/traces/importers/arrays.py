"""NumPy's ``.npy`` and ``.npz`` read so that no field of the file decides how much is allocated."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from ...errors import TraceError

MAGIC = b"\x93NUMPY"
ZIP = b"PK\x03\x04"
DEFLATE_RATIO = 1100  # deflate never packs tighter than 1032 to 1
ARCHIVE_ERRORS = (
    zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError, struct.error,
)  # fmt: skip
READERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def is_npy(head: bytes) -> bool:
    return head.startswith(MAGIC)


def is_npz(head: bytes) -> bool:
    """Whether a zip's first member is a ``.npy``."""
    name = head[30 : 30 + int.from_bytes(head[26:28], "little")]
    return head.startswith(ZIP) and name.endswith(b".npy")


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Name -> array of whole numbers; one array, named "", of a ``.npy``.

    Raises TraceError for anything that is no array of numbers, or not as long as it says.
    """
    with path.open("rb") as file:
        head = file.read(4)
    if head != ZIP:
        return {"": _array(path, path.read_bytes(), path.name)}
    try:
        with zipfile.ZipFile(path) as archive:
            return {
                info.filename.removesuffix(".npy"): _array(
                    path, _member(path, archive, info), info.filename
                )
                for info in archive.infolist()
            }
    except ARCHIVE_ERRORS as error:
        raise TraceError(
            "the archive cannot be read",
            path=path,
            expected="a .npz file",
            found=str(error)[:100],
            hint="the file may have been cut off while it was written",
        ) from error


def _member(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    size, packed = info.file_size, min(info.compress_size, path.stat().st_size)
    if size > DEFLATE_RATIO * (packed + 1):
        raise TraceError(
            f"{info.filename} cannot be as large as it says", path=path,
            expected=f"at most {DEFLATE_RATIO * (packed + 1)} bytes", found=size,
        )  # fmt: skip
    return archive.read(info)


def _array(path: Path, data: bytes, name: str) -> NDArray[Any]:
    file = io.BytesIO(data)
    try:
        shape, fortran, dtype = READERS[npy.read_magic(file)](file)
    # NumPy reads the header as Python, and raises whatever Python's parser does.
    except Exception as error:
        raise TraceError(
            f"{name} is no NumPy array", path=path, expected=".npy of version 1 or 2",
            found=str(error)[:100],
        )  from error  # fmt: skip
    if dtype.kind not in "iu":
        raise TraceError(
            f"{name} is no array of whole numbers", path=path, expected="int32 or another int",
            found=str(dtype),
        )  # fmt: skip
    count, at = 1, file.tell()
    for length in shape:
        count *= length
    if min(shape, default=0) < 0 or count * dtype.itemsize != len(data) - at:
        raise TraceError(
            f"{name} is not as long as its shape says",
            path=path,
            offset=at,
            expected=f"{count * dtype.itemsize} bytes, shape {str(shape)[:80]}",
            found=f"{len(data) - at} bytes",
            hint="the file may have been cut off while it was written",
        )
    return np.frombuffer(data, dtype, count, at).reshape(shape, order="F" if fortran else "C")
