"""CUDA on a machine without a GPU: real PyCUDA, on an emulated driver.

    from colibri_lab import simt

    simt.enable("A100")         # before PyCUDA is imported
    import pycuda.driver as cuda
    ...

The emulated device computes what a GPU would and observes it; its times mean nothing. Where a real
driver is present, `enable` does nothing and the script runs on the GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .driver import (
    Fault,
    clear_fault,
    current_gpu,
    enable,
    has_real_driver,
    is_enabled,
    last_fault,
    set_seed,
)
from .gpus import GPUS, Gpu

if TYPE_CHECKING:
    from .analysis import FoundError, observe

__all__ = [
    "GPUS",
    "Fault",
    "FoundError",
    "Gpu",
    "clear_fault",
    "current_gpu",
    "enable",
    "has_real_driver",
    "is_enabled",
    "last_fault",
    "observe",
    "set_seed",
]


def __getattr__(name: str) -> Any:
    if name in ("FoundError", "observe"):
        from . import analysis

        return getattr(analysis, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
