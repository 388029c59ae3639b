"""llama.cpp's ``moe-trace``: CSV ``layer,expert``, a row an activation, in the order they ran.

Neither tokens nor top-k are in it. A layer call is a run of rows of one layer, and top-k is what
every run is a multiple of: right wherever one token at a time was generated.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...errors import TraceError
from ...reference.trace import RoutingTrace
from .common import MAX_TOP_K, Choices, Given, build, empty, malformed, passes, text_lines

HEADING = "layer,expert"
ROW = re.compile(r"(\d{1,9}),(\d{1,9})", re.ASCII)


def recognise(head: bytes) -> bool:
    return re.match(rb"layer,\s?expert\s*(\n|$)", head) is not None


def read(path: Path, given: Given) -> RoutingTrace:
    """Raises TraceError, naming the line, and where top-k cannot be told."""
    lines, rows = [], []
    for number, text in text_lines(path):
        compact = text.replace(" ", "")
        found = ROW.fullmatch(compact)
        if number == 1 and compact == HEADING:
            continue
        if found is None:
            raise malformed(path, f"line {number}", "<layer>,<expert>", text)
        lines.append(number)
        rows.append((int(found[1]), int(found[2])))
    if not rows:
        raise empty(path)
    layer, expert = np.array(rows, np.int64).T
    starts = np.flatnonzero(np.diff(layer, prepend=-1))
    top_k = _top_k(path, starts, layer, expert, np.array(lines))
    phase, step = passes(layer[starts], np.diff(starts, append=len(layer)) // top_k)
    choices = Choices(phase, np.zeros(len(step), np.int32), step, layer[::top_k],
                      expert.reshape(-1, top_k), None, np.array(lines)[::top_k])  # fmt: skip
    return build(path, choices, given, f"llama.cpp moe-trace; top-k {top_k} told from the calls")


def _top_k(
    path: Path,
    starts: NDArray[np.int64],
    layer: NDArray[np.int64],
    expert: NDArray[np.int64],
    lines: NDArray[np.int64],
) -> int:
    top_k = int(np.gcd.reduce(np.diff(starts, append=len(layer))))
    hint = "one token's experts of a layer must stand together, and more than one layer be there"
    if len(starts) == 1 or top_k > MAX_TOP_K:
        raise TraceError(
            "top-k cannot be told", path=path, expected="calls of several layers",
            found=f"{len(starts)} calls, all multiples of {top_k} rows", hint=hint,
        )  # fmt: skip
    ordered = np.sort(expert.reshape(-1, top_k), axis=1)
    twice = (np.diff(ordered, axis=1) == 0).any(axis=1)
    if twice.any():
        line = lines[int(np.argmax(twice)) * top_k]
        raise TraceError(
            f"top-k cannot be told: the {top_k} rows from line {line} name an expert twice",
            path=path, expected=f"{top_k} different experts a token",
            found="the same one again", hint=hint,
        )  # fmt: skip
    return top_k
