"""The L2 cache that the model takes from the chosen GPU."""

from __future__ import annotations

from . import gpus
from .driver import current_gpu

WAYS = 16  # not published for any of them: what measurements of several generations agree on


def l2_of(gpu: str | None, l2_bytes: int | None = None) -> tuple[int, int, int]:
    """Bytes, ways and multiprocessors of a GPU by its name, or (None) of the emulated device."""
    chosen = gpus.find(gpu) if gpu else current_gpu()
    return l2_bytes or chosen.l2_bytes, WAYS, chosen.multiprocessors
