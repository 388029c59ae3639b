"""BLAS threads.  Their number belongs to the whole process, so open engines take turns."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from itertools import count
from threading import RLock

from threadpoolctl import threadpool_limits

_lock = RLock()  # re-entrant: the garbage collector may release a pin within another's making
_numbers = count()
_pins: dict[int, int] = {}  # pin -> threads, the newest last: it is the one in force
_before: list[threadpool_limits] = []  # remembers the number from before the first pin


def pin_blas(owner: object, threads: int) -> Callable[[], None]:
    """Let BLAS use so many threads; returns what ends it, also done when the owner is dropped.

    The newest pin that has not ended is in force; after the last one the process has again what it
    had before the first, in whatever order they end.
    """
    with _lock:
        limits = threadpool_limits(threads, user_api="blas")
        if not _pins:
            _before[:] = [limits]
        number = next(_numbers)
        _pins[number] = threads
    release = weakref.finalize(owner, _release, number)
    release.atexit = False
    return release


def _release(number: int) -> None:
    with _lock:
        del _pins[number]
        if _pins:
            threadpool_limits(list(_pins.values())[-1], user_api="blas")
        else:
            _before.pop().restore_original_limits()
