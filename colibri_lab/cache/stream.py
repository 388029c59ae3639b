"""The look-ups of a trace that is read in parts: they take a tenth of the memory its rows do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import TraceError
from ..reference.trace import COLUMNS, RoutingTrace
from .calls import Batches, batches, call_ends


def stream_batches(parts: Iterable[RoutingTrace]) -> Batches:
    """The layer calls of a trace in parts, as `batches` has them of the whole.

    A call may span parts. Raises as `batches` does.
    """
    done: list[Batches] = []
    rest: RoutingTrace | None = None
    for part in parts:
        kept = _rows(part, part.expert >= 0)
        whole = kept if rest is None else _joined(rest, kept)
        ends = np.flatnonzero(call_ends(whole.layer, whole.phase, whole.step))
        cut = int(ends[-1]) + 1 if len(ends) else 0
        if cut:
            done.append(batches(_rows(whole, slice(cut))))
        rest = _rows(whole, slice(cut, None))
    if rest is None:
        raise TraceError("the trace is empty", expected="one assignment or more", found=0)
    return _concatenated([*done, batches(rest)])


def _rows(trace: RoutingTrace, index: slice | NDArray[np.bool_]) -> RoutingTrace:
    # A copy, lest a few rows keep all of their part in memory.
    return replace(trace, **{name: getattr(trace, name)[index].copy() for name in COLUMNS})


def _joined(first: RoutingTrace, second: RoutingTrace) -> RoutingTrace:
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in (first, second)]) for name in COLUMNS
    }
    return replace(first, **columns)


def _concatenated(parts: list[Batches]) -> Batches:
    lengths = np.concatenate([np.diff(part.starts) for part in parts])
    return replace(
        parts[0],
        keys=np.concatenate([part.keys for part in parts]),
        starts=np.concatenate([[0], np.cumsum(lengths)]),
        decode=np.concatenate([part.decode for part in parts]),
    )
