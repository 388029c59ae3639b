"""Writing a file whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from .errors import InputError


@contextmanager
def atomic_writer(path: Path) -> Iterator[BinaryIO]:
    """A binary file that takes `path`'s place when the block ends without an error.

    It is written beside `path`, flushed to disk and renamed; on any error it is removed, and what
    was at `path` before stays as it was. Where `path` is a symlink, the file that it leads to is
    written, and the link stays.
    """
    given, path = path, Path(os.path.realpath(path))
    if path.is_symlink():
        raise InputError(
            "the output is a symlink that leads nowhere", path=given, expected="a file name"
        )
    if path.is_dir():
        raise InputError("the output is a folder", expected="a file name", found=str(given))
    if path.exists() and not path.is_file():
        # Renaming would put a plain file in the place of /dev/null, for everyone on the machine.
        raise InputError("the output is a device or a pipe", expected="a file", found=str(given))
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:  # about the file that was asked for, not the draft's name
        raise OSError(error.errno, error.strerror, str(given)) from error
    draft = Path(name)
    try:
        with os.fdopen(handle, "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes files for their owner alone; weights are for whoever may read the folder.
        draft.chmod(0o666 & ~_umask())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
