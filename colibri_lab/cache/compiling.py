"""Compiling with numba, for the modules of long replays alone: import it where it is needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import numba

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compiled on first use, and kept on disk where a folder for it can be written."""
    made: Callable[P, R]
    try:
        made = numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # numba found no folder
        made = numba.njit(nogil=True)(function)
    return made
