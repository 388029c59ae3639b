"""The look-ups of a trace that is read in parts: they take a tenth of the memory its rows do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import TraceError
from ..reference.trace import RoutingTrace
from .calls import Batches, batches, call_ends


def stream_batches(parts: Iterable[RoutingTrace]) -> Batches:
    """The layer calls of a trace in parts, as `batches` has them of the whole.

    A call may span parts. Raises as `batches` does.
    """
    done: list[Batches] = []
    rest: RoutingTrace | None = None
    for part in parts:
        kept = part.rows(part.expert >= 0)
        whole = kept if rest is None else _joined(rest, kept)
        ends = np.flatnonzero(call_ends(whole.layer, whole.phase, whole.step))
        cut = int(ends[-1]) + 1 if len(ends) else 0
        if cut:
            done.append(batches(whole.rows(slice(cut))))
        # A copy, lest a few rows keep all of their part in memory.
        rest = whole.rows(slice(cut, None))
    if rest is None:
        raise TraceError("the trace is empty", expected="one assignment or more", found=0)
    return _concatenated([*done, batches(rest)])


def _joined(first: RoutingTrace, second: RoutingTrace) -> RoutingTrace:
    following = second.columns()
    columns: dict[str, Any] = {
        name: np.concatenate([column, following[name]]) for name, column in first.columns().items()
    }
    return replace(first, **columns)


def _concatenated(parts: list[Batches]) -> Batches:
    lengths = np.concatenate([np.diff(part.starts) for part in parts])
    guesses = [part.guesses for part in parts if part.guesses is not None]
    steps = [part.steps for part in parts if part.steps is not None]
    return replace(
        parts[0],
        keys=np.concatenate([part.keys for part in parts]),
        starts=np.concatenate([[0], np.cumsum(lengths)]),
        decode=np.concatenate([part.decode for part in parts]),
        guesses=[each for part in guesses for each in part] if len(guesses) == len(parts) else None,
        steps=np.concatenate(steps) if len(steps) == len(parts) else None,
    )
