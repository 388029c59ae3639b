"""What several test files of sweeps share."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import pytest

from colibri_lab.experiments import Run, Sweep, backends

MakeSweep = Callable[..., Sweep]


def only(run: Run) -> dict[str, Any]:
    (record,) = run.records
    return record


def replace_backend(monkeypatch: pytest.MonkeyPatch, name: str, wrap: Callable[[Any], Any]) -> None:
    """Let every runner of a backend pass through `wrap`."""
    real = backends.BACKENDS[name]

    @contextmanager
    def opened(*arguments: Any) -> Any:
        with real.open(*arguments) as runner:
            yield wrap(runner)

    monkeypatch.setitem(backends.BACKENDS, name, dataclasses.replace(real, open=opened))


class Wrapped:
    """A runner that stands before another one."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
