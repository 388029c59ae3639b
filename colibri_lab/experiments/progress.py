"""What a sweep tells while it runs, and how it is told to stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Progress:
    """One event of a running sweep.

    stage : ``prepare`` (inputs, machine limits), ``cell`` (about to run), ``finished`` (a cell's
        record is on disk), ``done`` or ``cancelled``.
    done, total : cells, those reused from an earlier run included.
    remaining_s : an estimate from the cells that ran so far; None before the first.
    label : the current cell, or what is being prepared.   record : of the finished cell.
    """

    stage: str
    done: int
    total: int
    reused: int
    failed: int
    elapsed_s: float
    remaining_s: float | None = None
    label: str = ""
    record: dict[str, Any] | None = None


Callback = Callable[[Progress], None]


class Stopped(Exception):
    """The cancel event was set; what is finished is on disk."""


def check(cancel: threading.Event | None) -> None:
    """Raise Stopped where a stop was asked for."""
    if cancel is not None and cancel.is_set():
        raise Stopped


@dataclass
class Reporter:
    """Counts cells and sends events to the callback."""

    total: int
    reused: int
    callback: Callback | None = None
    ran: int = 0
    failed: int = 0
    _started_s: float = field(default_factory=time.monotonic)
    _cells_s: float = 0.0

    def send(self, stage: str, label: str = "", record: dict[str, Any] | None = None) -> None:
        if self.callback is None:
            return
        self.callback(
            Progress(
                stage=stage,
                done=self.reused + self.ran,
                total=self.total,
                reused=self.reused,
                failed=self.failed,
                elapsed_s=time.monotonic() - self._started_s,
                remaining_s=self._remaining_s(),
                label=label,
                record=record,
            )
        )

    def finished(self, label: str, record: dict[str, Any]) -> None:
        """Count a cell whose record is on disk."""
        self.ran += 1
        self.failed += record["status"] == "failed"
        self._cells_s += record["duration_s"]
        self.send("finished", label, record)

    def _remaining_s(self) -> float | None:
        left = self.total - self.reused - self.ran
        return self._cells_s / self.ran * left if self.ran else None
