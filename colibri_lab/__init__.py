"""A workbench for mixture-of-experts inference; the names below are the front door.

Nothing is imported before it is used, so ``import colibri_lab`` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import reference
    from .capacity import Capacity
    from .engine import Engine
    from .experiments import Run, Sweep, merge_runs, replay
    from .models import Conversion, convert, load_config, load_model, open_checkpoint
    from .reference import Decoder, RoutingTrace
    from .traces import import_trace, read_trace, write_trace

__version__ = "0.1.0.dev0"

__all__ = [
    "Capacity",
    "Conversion",
    "Decoder",
    "Engine",
    "RoutingTrace",
    "Run",
    "Sweep",
    "convert",
    "import_trace",
    "load_config",
    "load_model",
    "merge_runs",
    "open_checkpoint",
    "read_trace",
    "reference",
    "replay",
    "write_trace",
]

# Each name's module; the modules are themselves reached as attributes by the import system.
_HOMES = {
    "Capacity": "capacity",
    "Conversion": "models",
    "Decoder": "reference",
    "Engine": "engine",
    "RoutingTrace": "reference",
    "Run": "experiments",
    "Sweep": "experiments",
    "convert": "models",
    "import_trace": "traces",
    "load_config": "models",
    "load_model": "models",
    "merge_runs": "experiments",
    "open_checkpoint": "models",
    "read_trace": "traces",
    "replay": "experiments",
    "write_trace": "traces",
}


def __getattr__(name: str) -> Any:
    """Import a name of the front door on first use (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f".{_HOMES.get(name, name)}", __name__)
    value = getattr(module, name) if name in _HOMES else module
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
