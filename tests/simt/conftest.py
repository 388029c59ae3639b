"""An emulated device, and kernels compiled once a session."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

import pytest

from colibri_lab import simt
from colibri_lab.simt import analysis_flags, compiler
from colibri_lab.simt.nvcc_arguments import parse

from .device import Device

HERE = Path(__file__).parent


@pytest.fixture
def device():
    """A context on the emulated device, without PyCUDA."""
    if not simt.enable():
        pytest.skip("a real driver is present: the emulated one stays away")
    device = Device(ctypes.CDLL(None))
    yield device
    device.close()


@cache
def _compile(file, checks):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(analysis_flags.ENVIRONMENT, checks)
        path = str(HERE / file)
        return compiler.compile_source(parse(["--cubin", path]), path)


@pytest.fixture
def observed():
    """Compiles a .cu file of this folder for the analysis, and returns its image."""
    return lambda file: _compile(file, ",".join(analysis_flags.CHOICES))


@pytest.fixture
def plain():
    """Compiles a .cu file of this folder without the analysis, and returns its image."""
    return lambda file: _compile(file, "")
