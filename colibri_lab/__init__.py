"""A workbench for mixture-of-experts inference; the names below are the front door.

Nothing is imported before it is used, so ``import colibri_lab`` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import reference
    from .capacity import Capacity
    from .models import load_config, load_model, open_checkpoint
    from .reference import Decoder, RoutingTrace

__version__ = "0.1.0.dev0"

__all__ = [
    "Capacity",
    "Decoder",
    "RoutingTrace",
    "load_config",
    "load_model",
    "open_checkpoint",
    "reference",
]

# Each name's module; the modules are themselves reached as attributes by the import system.
_HOMES = {
    "Capacity": "capacity",
    "Decoder": "reference",
    "RoutingTrace": "reference",
    "load_config": "models",
    "load_model": "models",
    "open_checkpoint": "models",
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
