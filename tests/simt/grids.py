"""Launches through the runtime alone, without driver or PyCUDA: image in, NumPy arrays out."""

from __future__ import annotations

import ctypes
import functools
import os
import tempfile
from pathlib import Path

import numpy as np

from colibri_lab.simt.build import library_path
from colibri_lab.simt.compiler import compile_source
from colibri_lab.simt.nvcc_arguments import parse

_U32 = ctypes.c_uint32


class _Kernel(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("call", ctypes.c_void_p),
        ("arg_sizes", ctypes.POINTER(_U32)),
        ("arg_offsets", ctypes.POINTER(_U32)),
        ("num_args", _U32),
        ("max_threads", _U32),
        ("static_shared_bytes", _U32),
        ("static_window_bytes", _U32),
    ]


class _Global(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
        ("bytes", ctypes.c_size_t),
        ("is_constant", _U32),
    ]


class _Image(ctypes.Structure):
    _fields_ = [
        ("abi", _U32),
        ("instrumented", _U32),
        ("kernels", ctypes.POINTER(_Kernel)),
        ("num_kernels", _U32),
        ("globals", ctypes.POINTER(_Global)),
        ("num_globals", _U32),
        ("source_path", ctypes.c_char_p),
    ]


class _Launch(ctypes.Structure):
    _fields_ = [
        ("kernel", ctypes.POINTER(_Kernel)),
        ("image", ctypes.POINTER(_Image)),
        ("args", ctypes.POINTER(ctypes.c_void_p)),
        ("grid", _U32 * 3),
        ("block", _U32 * 3),
        ("dynamic_shared_bytes", _U32),
        ("workers", _U32),
        ("number", ctypes.c_uint64),
    ]


class _Fault(ctypes.Structure):
    _fields_ = [
        ("code", ctypes.c_int),
        ("block", _U32 * 3),
        ("thread", _U32 * 3),
        ("pc", ctypes.c_void_p),
        ("address", ctypes.c_void_p),
        ("message", ctypes.c_char * 1024),
    ]


class LaunchError(Exception):
    """A launch that failed: its CUresult, block, thread and message."""

    def __init__(self, fault: _Fault) -> None:
        super().__init__(fault.message.decode())
        self.code = fault.code
        self.block, self.thread = tuple(fault.block), tuple(fault.thread)


@functools.cache
def library() -> ctypes.CDLL:
    """The emulated driver, loaded as PyCUDA's process would."""
    return ctypes.CDLL(str(library_path()), mode=ctypes.RTLD_GLOBAL)


def compile_text(source: str, *options: str, name: str = "kernel.cu") -> bytes:
    """The image of a source; errors and lines call it by `name`."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, name).write_text(source)
        before = Path.cwd()
        os.chdir(folder)
        try:
            return compile_source(parse([*options, name]), name)
        finally:
            os.chdir(before)


def source(name: str) -> str:
    """The text of a .cu file beside the tests."""
    return (Path(__file__).parent / name).read_text()


def marked_line(name: str, mark: str) -> str:
    """`kernel.cu:12`, where line 12 of a .cu file here ends with `//! mark`."""
    lines = source(name).splitlines()
    (found,) = (n for n, line in enumerate(lines, 1) if line.endswith(f"//! {mark}"))
    return f"kernel.cu:{found}"


class Module:
    """A compiled source; kernels are called by name."""

    def __init__(self, source: str, *options: str, name: str = "kernel.cu") -> None:
        library()
        with tempfile.NamedTemporaryFile(suffix=".so", delete=False) as file:
            file.write(compile_text(source, *options, name=name))
        self.path = Path(file.name)  # lines are looked up in it: kept until the process ends
        self._handle = ctypes.CDLL(file.name)
        self._image = _Image.in_dll(self._handle, "simt_image")
        found = (self._image.kernels[i] for i in range(self._image.num_kernels))
        self.kernels = {k.name.decode(): k for k in found}
        variables = (self._image.globals[i] for i in range(self._image.num_globals))
        self.globals = {v.name.decode(): v for v in variables}

    def close(self) -> None:
        self.path.unlink()

    def variable(self, name: str, dtype: type) -> np.ndarray:
        """A module variable's own memory."""
        found = self.globals[name]
        array = (ctypes.c_char * found.bytes).from_address(found.address)
        return np.frombuffer(array, dtype)

    def run(self, name, grid, block, *args, shared=0, workers=0) -> None:
        """Launches; arrays go by address, NumPy scalars by value."""
        kernel = self.kernels[name]
        values = [_argument(a) for a in args]
        assert len(values) == kernel.num_args
        sizes = [kernel.arg_sizes[i] for i in range(kernel.num_args)]
        assert sizes == [ctypes.sizeof(v) for v in values]
        pointers = (ctypes.c_void_p * max(len(values), 1))(*map(ctypes.addressof, values))
        launch = _Launch(
            ctypes.pointer(kernel),
            ctypes.pointer(self._image),
            pointers,
            (_U32 * 3)(*_three(grid)),
            (_U32 * 3)(*_three(block)),
            shared,
            workers,
            1,
        )
        fault = _Fault()
        if library().simt_run_grid(ctypes.byref(launch), ctypes.byref(fault)):
            raise LaunchError(fault)


def _three(size) -> tuple[int, int, int]:
    size = (size,) if isinstance(size, int) else tuple(size)
    return size + (1,) * (3 - len(size))


def _argument(value):
    if isinstance(value, np.ndarray):
        return ctypes.c_uint64(value.ctypes.data)
    return (ctypes.c_char * value.nbytes).from_buffer_copy(value.tobytes())
