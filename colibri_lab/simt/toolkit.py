"""What stands in for the CUDA toolkit's folder: the `nvcc` command, and a library of nothing."""

from __future__ import annotations

import hashlib
import os
import shlex
import sys
import tempfile
from pathlib import Path

from .compiler import cache_folder

_EMPTY_ARCHIVE = b"!<arch>\n"


def command_text() -> str:
    """The shell script `nvcc`: this Python and this package, and nothing else that is installed."""
    root = Path(__file__).parent.parent.parent
    start = (
        f"import sys; sys.path.insert(0, {str(root)!r}); "
        "from colibri_lab.simt.compiler import main; sys.exit(main())"
    )
    return f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -I -S -c {shlex.quote(start)} "$@"\n'


def _write(path: Path, data: bytes, mode: int) -> None:
    """Atomically: other processes may be running what is replaced."""
    if path.exists() and path.read_bytes() == data and os.access(path, os.X_OK):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as draft:
        draft.write(data)
    Path(draft.name).chmod(mode)
    Path(draft.name).replace(path)


def write_command(folder: Path) -> Path:
    """Writes the `nvcc` command into a folder, and returns its path."""
    path = folder / "nvcc"
    _write(path, command_text().encode(), 0o755)
    return path


def put_first_on_path() -> None:
    """Makes ours the first `nvcc` of this process and its children.

    Each Python and each copy of the package has a folder of its own. PyCUDA's DynamicSourceModule
    looks for the device's library beside the command.
    """
    key = hashlib.sha256(command_text().encode()).hexdigest()[:12]
    folder = cache_folder() / "toolkit" / key
    commands = str(write_command(folder / "bin").parent)
    _write(folder / "lib64" / "libcudadevrt.a", _EMPTY_ARCHIVE, 0o755)
    others = [one for one in os.environ.get("PATH", "").split(os.pathsep) if one != commands]
    os.environ["PATH"] = os.pathsep.join([commands, *others])
