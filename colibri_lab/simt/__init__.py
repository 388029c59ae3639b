"""CUDA on a machine without a GPU: real PyCUDA, on an emulated driver.

    from colibri_lab import simt

    simt.enable("A100")         # before PyCUDA is imported
    import pycuda.driver as cuda
    ...

The emulated device computes what a GPU would and observes it; its times mean nothing. Where a real
driver is present, `enable` does nothing and the script runs on the GPU.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .analysis import FoundError, observe
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

# The compiler command imports this package at each call: nothing is imported before it is used.
_HOMES = {"FoundError": "analysis", "observe": "analysis", "GPUS": "gpus", "Gpu": "gpus"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES.get(name, 'driver')}"), name)
