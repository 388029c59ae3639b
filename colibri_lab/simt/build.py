"""The emulated driver, compiled once by the machine's own C++ compiler and kept for the user."""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from .compiler import cache_folder, find_compiler

NATIVE = Path(__file__).parent / "native"
SONAME = "libcuda.so.1"
_COMPILE = ("-std=c++17", "-O2", "-g1", "-fPIC", "-fvisibility=hidden", "-pthread", "-Wall")
_LINK = ("-shared", "-pthread", f"-Wl,-soname,{SONAME}", "-Wl,-z,defs", "-ldl")
_KEPT = 4  # libraries of other sources or compilers; older ones are deleted
_SWITCHES = {"x86_64": "switch_x86_64.S", "aarch64": "switch_aarch64.S"}


class BuildError(RuntimeError):
    """The machine cannot compile the emulated driver; the text says why."""


def sources() -> list[Path]:
    """What is compiled: all of native/*.cpp and the processor's own assembly.

    raises : BuildError on a processor for which there is none.
    """
    machine = platform.machine()
    if machine not in _SWITCHES or platform.system() != "Linux":
        raise BuildError(
            f"the emulated driver runs on Linux on {' or '.join(_SWITCHES)}, "
            f"this is {platform.system()} on {machine}"
        )
    return [*sorted(NATIVE.glob("*.cpp")), NATIVE / _SWITCHES[machine]]


def _key(compiler: str, files: list[Path]) -> str:
    """Names sources, headers, compiler and flags."""
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False)
    parts = [version.stdout, *_COMPILE, *_LINK]
    digest = hashlib.sha256("\0".join(parts).encode())
    for path in [*files, *sorted(NATIVE.glob("*.h"))]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:24]


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """One process at a time: the others wait, and find the work done."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"{' '.join(command)}\n{done.stdout}{done.stderr}".rstrip())


def compile_library(compiler: str, files: list[Path], made: Path) -> None:
    """Compiles each file by itself, as many at once as there are cores, and links them.

    raises : BuildError with what the compiler said.
    """
    with tempfile.TemporaryDirectory(prefix="colibri-simt-") as folder:
        objects = [Path(folder) / f"{path.stem}.o" for path in files]
        commands = [
            [compiler, *_COMPILE, "-c", str(path), "-o", str(one)]
            for path, one in zip(files, objects, strict=True)
        ]
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            list(pool.map(_run, commands))
        draft = made.with_name(f".{made.name}.{os.getpid()}")
        _run([compiler, *map(str, objects), *_LINK, "-o", str(draft)])
        draft.replace(made)


def _delete_old(folder: Path, kept: Path) -> None:
    found = [path for path in folder.iterdir() if path.is_dir() and path != kept]
    found.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    for path in found[_KEPT:]:
        shutil.rmtree(path, ignore_errors=True)


def library_path() -> Path:
    """The compiled driver, made where it is not there yet (some ten seconds).

    raises : BuildError where the machine cannot compile it.
    """
    compiler = find_compiler()
    files = sources()
    folder = cache_folder() / "driver" / _key(compiler, files)
    made = folder / SONAME
    if made.exists():
        return made
    with locked(cache_folder() / "driver.lock"):
        if not made.exists():
            folder.mkdir(parents=True, exist_ok=True)
            compile_library(compiler, files, made)
            _delete_old(folder.parent, folder)
    return made
