"""Switching the emulated driver on, and asking it what happened."""

from __future__ import annotations

import ctypes
import os
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from . import analysis_native, gpus
from .gpus import Gpu, l2_of

GPU_VARIABLE = "COLIBRI_SIMT_GPU"
SEED_VARIABLE = "COLIBRI_SIMT_SEED"
# What NVIDIA's own driver shows: Linux, WSL, Jetson.
_DRIVER_SIGNS = (
    "/proc/driver/nvidia/version",
    "/dev/nvidiactl",
    "/usr/lib/wsl/lib/libcuda.so.1",
    "/dev/nvhost-ctrl",
)
_enabled: dict[str, Gpu] = {}  # "gpu": the one that the loaded library takes after


class _RawFault(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_int),
        ("block", ctypes.c_uint32 * 3),
        ("thread", ctypes.c_uint32 * 3),
        ("pc", ctypes.c_void_p),
        ("address", ctypes.c_void_p),
        ("message", ctypes.c_char * 1024),
    )


@dataclass(frozen=True)
class Fault:
    """What stopped a kernel.

    code : a CUresult.
    block, thread : x, y, z.
    message : kernel, file and line, block, thread, and what was wrong.
    """

    code: int
    block: tuple[int, int, int]
    thread: tuple[int, int, int]
    message: str


def has_real_driver() -> bool:
    """Whether this machine has NVIDIA's own driver."""
    return any(Path(sign).exists() for sign in _DRIVER_SIGNS)


def is_enabled() -> bool:
    """Whether this process runs on the emulated device."""
    return bool(_enabled)


def current_gpu() -> Gpu:
    """The GPU that the emulated device takes after.

    raises : RuntimeError where emulation is off.
    """
    if not _enabled:
        raise RuntimeError(
            "the emulated driver is not loaded: call colibri_lab.simt.enable() first"
        )
    return _enabled["gpu"]


def enable(
    gpu: str | Gpu | None = None, *, seed: int | None = None, even_with_gpu: bool = False
) -> bool:
    """Lets PyCUDA run on the emulated device; call it before PyCUDA is imported.

    gpu : a name of GPUS or one of your own; the environment's COLIBRI_SIMT_GPU, else an A100.
    seed : the order of queued work. 0 runs it as late as it may, others draw an order; the
        environment's COLIBRI_SIMT_SEED, else 0.
    even_with_gpu : emulate although a real driver is present.

    Returns whether emulation is on: it is not where a real driver is.
    raises : RuntimeError where PyCUDA is imported already, or another GPU was enabled and used;
        ValueError for an unknown GPU or seed; BuildError where the driver cannot be compiled.
    """
    if has_real_driver() and not even_with_gpu and not _enabled:
        return False
    chosen = _chosen_gpu(gpu)
    number = _chosen_seed(seed)
    if not _enabled and "pycuda._driver" in sys.modules:
        raise RuntimeError("call colibri_lab.simt.enable() before PyCUDA is imported")
    _configure(_library(), chosen, number)
    _enabled["gpu"] = chosen
    analysis_native.set_l2(*l2_of(chosen))
    _prepare_environment(chosen, number)
    return True


def _chosen_gpu(gpu: str | Gpu | None) -> Gpu:
    if isinstance(gpu, Gpu):
        return gpu
    if gpu is None and _enabled:
        return _enabled["gpu"]
    return gpus.find(gpu or os.environ.get(GPU_VARIABLE) or gpus.DEFAULT)


def _chosen_seed(seed: int | None) -> int:
    text = os.environ.get(SEED_VARIABLE) or "0" if seed is None else str(seed)
    if not text.isdecimal() or int(text) >= 2**64:
        raise ValueError(f"seed: a whole number of 0 to 2**64 - 1 expected, found {text!r}")
    return int(text)


@cache
def _library() -> ctypes.CDLL:
    """The driver, loaded so that PyCUDA's extension and compiled kernels find its functions."""
    from .build import library_path

    library = ctypes.CDLL(str(library_path()), mode=ctypes.RTLD_GLOBAL)
    library.simt_driver_configure.argtypes = [
        ctypes.c_char_p,
        ctypes.c_uint64,
        ctypes.POINTER(ctypes.c_int32),
        ctypes.c_uint32,
        ctypes.c_uint64,
    ]
    library.simt_driver_seed.argtypes = [ctypes.c_uint64]
    library.simt_driver_last_fault.argtypes = [ctypes.POINTER(_RawFault)]
    library.simt_driver_clear_fault.restype = None
    library.simt_driver_seed.restype = None
    return library


def _configure(library: ctypes.CDLL, gpu: Gpu, seed: int) -> None:
    if _enabled.get("gpu") == gpu:
        library.simt_driver_seed(seed)
        return
    pairs = [number for pair in gpus.attributes(gpu).items() for number in pair]
    values = (ctypes.c_int32 * len(pairs))(*pairs)
    refused = library.simt_driver_configure(
        gpu.device_name.encode(), gpu.memory_bytes, values, len(pairs) // 2, seed
    )
    if refused:
        raise RuntimeError(
            f"gpu: this process already uses the emulated {_enabled['gpu'].name}; "
            f"start another one for {gpu.name}"
        )


def _prepare_environment(gpu: Gpu, seed: int) -> None:
    """The compiler command comes first on PATH; child processes find the same choices."""
    from .toolkit import put_first_on_path

    put_first_on_path()
    os.environ[SEED_VARIABLE] = str(seed)
    if gpu.name in gpus.GPUS:
        os.environ[GPU_VARIABLE] = gpu.name


def set_seed(seed: int) -> None:
    """Chooses the order of queued work from here on; 0 runs it as late as it may."""
    current_gpu()
    number = _chosen_seed(seed)
    _library().simt_driver_seed(number)
    os.environ[SEED_VARIABLE] = str(number)


def last_fault() -> Fault | None:
    """What stopped the last kernel that was stopped, if any."""
    current_gpu()
    raw = _RawFault()
    if not _library().simt_driver_last_fault(ctypes.byref(raw)):
        return None
    message = raw.message.decode(errors="replace")
    return Fault(raw.code, (*raw.block,), (*raw.thread,), message)


def clear_fault() -> None:
    """Makes contexts usable again after a fault; on a GPU it would take a new process."""
    current_gpu()
    _library().simt_driver_clear_fault()
