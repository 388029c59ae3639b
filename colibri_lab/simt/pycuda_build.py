"""PyCUDA built on a machine that has neither a GPU nor a CUDA toolkit.

Its source distribution is compiled against the headers that NVIDIA publishes on PyPI and linked
with the emulated driver, without cuRAND. The wheel asks for `libcuda.so.1` as any other does: on a
machine with a GPU it runs on that. It is kept for the user, one for each Python.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from .build import BuildError, library_path, locked
from .compiler import CompileError, cache_folder

VERSION = "2026.1"
_HEADERS = ("nvidia-cuda-runtime>=13,<14", "nvidia-cuda-profiler-api>=13,<14")
_TOOLS = ("numpy>=2.0", "setuptools", "wheel")
_FLAGS = ("-O1", "-g0", "-w")  # half the time of its usual flags; it is a thin layer

# Built without cuRAND, pycuda.curandom cannot be imported, not even for its own rand().
_WITHOUT_CURAND = (
    ("= _curand.get_curand_version", '= getattr(_curand, "get_curand_version", lambda: None)'),
    ("if get_curand_version() >=", "if (get_curand_version() or (0,)) >="),
)

# setuptools compiles one file after the other; PyCUDA with its Boost has some seventy.
_PARALLEL = """
import os, runpy, sys
from concurrent.futures import ThreadPoolExecutor
import setuptools
try:
    from setuptools._distutils.compilers.C.base import Compiler
except ImportError:
    from setuptools._distutils.ccompiler import CCompiler as Compiler

def compile_all(self, sources, output_dir=None, macros=None, include_dirs=None, debug=False,
                extra_preargs=None, extra_postargs=None, depends=None):
    macros, objects, extra, options, build = self._setup_compile(
        output_dir, macros, include_dirs, sources, depends, extra_postargs)
    flags = self._get_cc_args(options, debug, extra_preargs)
    def one(made):
        self._compile(made, *build[made], flags, extra, options)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(one, build))
    return objects

Compiler.compile = compile_all
sys.path.insert(0, os.getcwd())
sys.argv = ["setup.py", "-q", "bdist_wheel"]
runpy.run_path("setup.py", run_name="__main__")
"""


def _run(command: list[str], folder: Path, environment: dict[str, str] | None = None) -> None:
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = "\n".join((done.stdout + done.stderr).splitlines()[-40:])
        raise BuildError(f"`{' '.join(command[:6])} …` failed:\n{said}")


def _make_environment(folder: Path) -> Path:
    """A Python of its own with what the build needs, and PyCUDA's source beside it."""
    _run([sys.executable, "-m", "venv", "tools"], folder)
    python = folder / "tools" / "bin" / "python"
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "-q"]
    _run([*pip, "install", *_TOOLS, *_HEADERS], folder)
    return python


def _unpack_source(python: Path, folder: Path, version: str) -> Path:
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "-q"]
    # pip asks the source for its metadata, with the tools that are installed already.
    wanted = ["--no-deps", "--no-build-isolation", "--no-binary", "pycuda", f"pycuda=={version}"]
    _run([*pip, "download", *wanted], folder)
    archive = next(folder.glob("pycuda-*.tar.gz"))
    shutil.unpack_archive(archive, folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


def _mend(source: Path) -> None:
    module = source / "pycuda" / "curandom.py"
    text = module.read_text()
    for old, new in _WITHOUT_CURAND:
        text = text.replace(old, new)
    module.write_text(text)


def _configure(python: Path, source: Path, library: Path) -> None:
    links = source.parent / "lib"
    links.mkdir()
    (links / "libcuda.so").symlink_to(library)
    headers = next((source.parent / "tools").rglob("cuda.h")).parent
    options = [
        f"--cuda-inc-dir={headers}",
        f"--cudadrv-lib-dir={links}",
        f"--cxxflags={','.join(_FLAGS)}",
        "--cuda-root=",
        "--no-cuda-enable-curand",
    ]
    _run([str(python), "configure.py", *options], source)


def _kept_wheels(version: str) -> Path:
    tag = f"{sys.implementation.cache_tag}-{sysconfig.get_platform()}"
    recipe = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]
    return cache_folder() / "pycuda" / f"{version}-{tag}-{recipe}"


def wheel(version: str = VERSION) -> Path:
    """The wheel of PyCUDA for this Python, built (in a minute or two) where it is not there yet.

    raises : BuildError with what pip or the compiler said.
    """
    kept = _kept_wheels(version)
    with locked(cache_folder() / "pycuda.lock"):
        for found in kept.glob("*.whl"):
            return found
        with tempfile.TemporaryDirectory(prefix="colibri-pycuda-") as name:
            folder = Path(name)
            python = _make_environment(folder)
            source = _unpack_source(python, folder, version)
            _mend(source)
            _configure(python, source, library_path())
            (source / "build_parallel.py").write_text(_PARALLEL)
            _run([str(python), "build_parallel.py"], source)
            made = next((source / "dist").glob("*.whl"))
            kept.mkdir(parents=True, exist_ok=True)
            draft = kept / f".{made.name}"
            shutil.copyfile(made, draft)
            return draft.replace(kept / made.name)


def _installer() -> list[str]:
    """pip of this Python, else uv.

    raises : BuildError where there is neither.
    """
    pip = [sys.executable, "-m", "pip"]
    if not subprocess.run([*pip, "--version"], capture_output=True, check=False).returncode:
        return [*pip, "install"]
    uv = os.environ.get("UV") or shutil.which("uv")
    if uv:
        return [uv, "pip", "install", "--python", sys.executable]
    raise BuildError("neither pip nor uv is there to install it: use --wheel, and install the file")


def install(path: Path) -> None:
    """Installs the wheel, and what it needs, into the environment of this Python."""
    command = _installer()
    _run([*command, str(path)], Path.cwd())
    # One of the same version that was built otherwise would have stayed.
    _run([*command, "--force-reinstall", "--no-deps", str(path)], Path.cwd())


def main(argv: list[str]) -> int:
    """Builds PyCUDA and installs it, or prints where the wheel is."""
    parser = argparse.ArgumentParser(
        prog="python -m colibri_lab.simt build-pycuda",
        description="Build PyCUDA without a GPU or a CUDA toolkit, and install it here.",
    )
    parser.add_argument("--version", default=VERSION, help=f"of PyCUDA (default {VERSION})")
    parser.add_argument("--wheel", action="store_true", help="only build it, and print its path")
    options = parser.parse_args(argv)
    try:
        path = wheel(options.version)
        if options.wheel:
            print(path)
        else:
            install(path)
            print(f"installed {path.name}")
    except (BuildError, CompileError) as error:
        print(f"PyCUDA was not built: {error}", file=sys.stderr)
        return 1
    return 0
