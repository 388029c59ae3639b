"""Ready-made grids: `quick` shows every effect within a minute, `full` takes an hour."""

from __future__ import annotations

from typing import Any

from ..config import MoEConfig
from ..errors import InputError

# Around a base: each axis alone, and the crosses where one effect depends on another.
_QUICK: dict[str, Any] = {
    "batch_size": (1, 2, 4, 8, 16),
    "top_k": (1, 2, 4),
    "stream_count": (1, 2),
    "capacity": ("none", "hard:1.0", "soft:1.25"),
    "backend": ("cpu", "numpy"),
    "expert_cache_slots": (2, 4, 8, 16),
    "seq_len": (1, 16),
    "base": {"batch_size": 8, "top_k": 2, "expert_cache_slots": 4},
    "crosses": (
        ("batch_size", "capacity"),
        ("batch_size", "top_k"),
        ("batch_size", "stream_count"),
        ("batch_size", "expert_cache_slots"),
        ("top_k", "capacity"),
        ("stream_count", "seq_len"),
        ("backend",),
    ),
    "repeats": 100,
}

_FULL: dict[str, Any] = {
    "batch_size": (1, 2, 4, 8, 16, 32),
    "top_k": (1, 2, 4, 8),
    "stream_count": (1, 2),
    "capacity": ("none", "hard:1.0", "hard:1.0:weight", "soft:1.25"),
    "backend": ("cpu", "numpy"),
    "expert_cache_slots": (4, 8, 16),
    "seq_len": (1, 16),
    "repeats": 200,
}

PRESETS = {"quick": _QUICK, "full": _FULL}


def preset(name: str, moe: MoEConfig) -> dict[str, Any]:
    """The arguments of `Sweep` for a preset, without what the model has too few experts for."""
    if name not in PRESETS:
        raise InputError(
            "the preset is not known", expected=f"one of {', '.join(PRESETS)}", found=name
        )
    chosen = dict(PRESETS[name])
    for axis in ("top_k", "expert_cache_slots"):
        fitting = tuple(value for value in chosen[axis] if value <= moe.num_experts)
        chosen[axis] = fitting or (moe.num_experts,)
    if "base" in chosen:
        chosen["base"] = {
            **chosen["base"],
            "top_k": min(chosen["base"]["top_k"], moe.num_experts),
            "expert_cache_slots": min(
                chosen["base"]["expert_cache_slots"], max(chosen["expert_cache_slots"])
            ),
        }
    return chosen
