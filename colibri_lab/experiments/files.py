"""Writing files so that a crash, a full disk or a second writer leaves nothing half-done."""

from __future__ import annotations

import errno
import os
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..atomic import atomic_writer
from ..errors import RunError

LOCK_NAME = ".lock"
_HINTS = {
    errno.ENOSPC: "the disk is full: free some space, then resume; what is finished is kept",
    errno.EDQUOT: "the quota is used up: free some space, then resume; what is finished is kept",
    errno.EROFS: "the file system is read-only: choose another output folder",
    errno.EACCES: "you may not write there: choose another output folder",
    errno.EPERM: "you may not write there: choose another output folder",
    errno.ENOTDIR: "a part of the path is a file: choose another output folder",
    errno.EEXIST: "a file stands where the folder should be: choose another output folder",
}


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an OSError into a RunError that says what to do."""
    try:
        yield
    except OSError as error:
        raise RunError(
            "the output cannot be written",
            path=path,
            found=error.strerror or str(error),
            hint=_HINTS.get(error.errno or 0, "choose another output folder"),
        ) from error


def make_folder(path: Path) -> None:
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)


def write_whole(path: Path, data: bytes) -> None:
    """Replace a file by `data`, or leave it as it was."""
    with writing(path), atomic_writer(path) as file:
        file.write(data)


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """An .npz file, whole or not at all."""
    with writing(path), atomic_writer(path) as file:
        np.savez(file, allow_pickle=False, **arrays)


def read_arrays(path: Path, what: str, hint: str) -> dict[str, NDArray[Any]]:
    """The arrays of an .npz file; RunError where it is absent or damaged.

    what : the file is, in the error.   hint : what to do then.
    """
    try:
        # Opened here, since np.load forgets to close a file that it cannot read.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return dict(arrays)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise RunError(
            f"{what} cannot be read",
            path=path,
            expected="an .npz file that a sweep wrote",
            found=str(error),
            hint=hint,
        ) from error


def append_line(path: Path, line: str) -> None:
    """Add one line and flush it to disk; after a failure the file is as long as before."""
    with writing(path):
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            _append(handle, line.encode() + b"\n")
        finally:
            os.close(handle)


def _append(handle: int, data: bytes) -> None:
    length = os.fstat(handle).st_size
    try:
        while data:
            data = data[os.write(handle, data) :]
        os.fsync(handle)
    except OSError:
        # A device such as /dev/full cannot be cut, and needs no cutting.
        with suppress(OSError):
            os.ftruncate(handle, length)
        raise


def is_locked(folder: Path) -> bool:
    """Whether a writer is at work in a folder now."""
    import fcntl

    try:
        with (folder / LOCK_NAME).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Be the only writer of a folder; RunError where another one is at work.

    The lock goes with its process, so a killed writer leaves none behind.
    """
    import fcntl

    path = folder / LOCK_NAME
    with writing(path):
        file = path.open("a+")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            raise RunError(
                "another process is writing this run",
                path=folder,
                expected="one writer a run folder",
                found=f"a lock held by process {file.read().strip() or 'unknown'}",
                hint="wait for it, cancel it, or choose another output folder",
            ) from error
        with writing(path):
            file.truncate(0)
            file.write(f"{os.getpid()}\n")
            file.flush()
        yield
