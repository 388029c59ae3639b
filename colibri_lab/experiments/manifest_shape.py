"""What readers take for granted of a manifest, so that an edited one is said to be so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..errors import RunError
from .grid import AXES

NUMBER = (int, float)
# Key -> its type, or the same for what is inside it; more keys are welcome.
SHAPE: dict[str, Any] = {
    **dict.fromkeys(("run_id", "created_utc", "colibri_version", "code_version"), str),
    **dict.fromkeys(("model_fingerprint", "hardware_key", "inputs_key"), str),
    "model": {
        "name": str,
        "path": str,
        **dict.fromkeys(("num_moe_layers", "num_experts", "top_k"), int),
        **dict.fromkeys(("hidden_size", "intermediate_size"), int),
    },
    "grid": {
        "axes": dict.fromkeys(AXES, list),
        "base": dict,
        "crosses": list,
        "design": str,
        "num_cells": int,
    },
    "settings": {"repeats": int, "warmup": int, "blas_threads": int, "tolerance": NUMBER},
    "seeds": {"order": int},
    "environment": {
        **dict.fromkeys(("cpu", "architecture", "blas", "usable_cores", "python", "os"), object),
        "packages": dict,
        "caches": dict,
        "simd": list,
    },
}


def check_manifest(manifest: Mapping[str, Any], path: Path) -> None:
    """RunError that names the first key which is missing or of a wrong type."""
    for name, kind in _wrong(manifest, SHAPE, ""):
        raise RunError(
            f'the manifest\'s "{name}" is missing or of a wrong type',
            path=path,
            expected=kind,
            hint="restore the manifest, or run again into a new folder",
        )


def _wrong(found: Any, shape: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    for name, kind in shape.items():
        value, full = found.get(name), f"{prefix}{name}"
        if isinstance(kind, Mapping):
            if not isinstance(value, Mapping):
                yield full, "an object"
            else:
                yield from _wrong(value, kind, f"{full}.")
        elif name not in found or not isinstance(value, kind):
            yield full, "a number" if kind is NUMBER else kind.__name__
