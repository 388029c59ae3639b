"""Ending on SIGTERM as on Ctrl-C: what is half-written goes, what is finished stays."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interrupted_by_sigterm() -> Iterator[list[int]]:
    """Within the block SIGTERM raises KeyboardInterrupt; the list then holds its number.

    Nothing changes where somebody handles or ignores the signal already, or in another thread than
    the main one, which alone may set handlers.
    """
    received: list[int] = []

    def interrupt(number: int, _: FrameType | None) -> None:
        received.append(number)
        raise KeyboardInterrupt

    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield received
        return
    signal.signal(signal.SIGTERM, interrupt)
    try:
        yield received
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
