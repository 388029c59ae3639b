"""The L2 cache that the model takes from the chosen GPU."""

from __future__ import annotations

WAYS = 16  # not published for any of them: what measurements of several generations agree on
_DEFAULT = (40 << 20, 108)  # an A100 of 40 GB


def l2_of(gpu: str | None, l2_bytes: int | None = None) -> tuple[int, int, int]:
    """Bytes, ways and multiprocessors of a GPU by its name, or (None) of the emulated device."""
    return l2_bytes or _DEFAULT[0], WAYS, _DEFAULT[1]
