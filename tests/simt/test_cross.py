"""The other processor: runtime and kernels compiled for aarch64, and run where an emulator is."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from colibri_lab.simt import compiler
from colibri_lab.simt.build import NATIVE
from colibri_lab.simt.nvcc_arguments import parse

HERE = Path(__file__).parent
CROSS = shutil.which("aarch64-linux-gnu-g++")
EMULATOR = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")

pytestmark = pytest.mark.skipif(
    CROSS is None or platform.machine() == "aarch64",
    reason="no aarch64-linux-gnu-g++ to cross with",
)


def _run(*command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The runtime, an image and a program that launches its kernels."""
    folder = tmp_path_factory.mktemp("aarch64")
    sources = [*sorted(NATIVE.glob("runtime*.cpp")), NATIVE / "switch_aarch64.S"]
    library = ["-fPIC", "-shared", "-pthread", *sources, "-o", folder / "libcuda.so.1"]
    _run(CROSS, "-std=c++17", "-O1", *library)
    _run(CROSS, "-std=c++17", "-rdynamic", HERE / "cross.cpp", "-o", folder / "cross", "-ldl")
    patch = pytest.MonkeyPatch()
    patch.setattr(compiler, "_native_flags", list)
    source = str(HERE / "blocks.cu")
    args = parse([source])
    text = compiler.preprocess(CROSS, args, source)
    (folder / "image.so").write_bytes(compiler.build(CROSS, args, source, text))
    patch.undo()
    return folder


def test_it_compiles_for_aarch64(made):
    for name in ("libcuda.so.1", "image.so", "cross"):
        assert (made / name).read_bytes()[18:20] == b"\xb7\x00"  # EM_AARCH64


@pytest.mark.skipif(EMULATOR is None, reason="no qemu-aarch64 to run it")
def test_it_runs_on_aarch64(made):
    root = "/usr/aarch64-linux-gnu"
    out = _run(EMULATOR, "-L", root, made / "cross", made / "libcuda.so.1", made / "image.so")
    assert "places: 700 illegal access to address 0x10" in out
    assert out.endswith("wrong: 0\n")
