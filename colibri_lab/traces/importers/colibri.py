"""colibri's ``ROUTE_TRACE``: text, ``<call> <row> <layer> <id>:<gate> …`` a token and layer call.

The call counts every layer call. There is no phase: a pass of more than one row is prefill.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from ...errors import TraceError
from ...reference.trace import RoutingTrace
from .common import Choices, Given, build, empty, malformed, passes, same_top_k, text_lines

GATE = r"\d{1,9}:[-+]?[0-9.]{1,32}(?:[eE][-+]?\d{1,3})?"
LINE = re.compile(rf"(\d{{1,18}}) (\d{{1,9}}) (\d{{1,9}})((?: {GATE})+)", re.ASCII)
FIRST = re.compile(rf"\s*\d+ \d+ \d+ {GATE}[ \n\r]".encode())


def recognise(head: bytes) -> bool:
    return FIRST.match(head + b"\n") is not None


def read(path: Path, given: Given) -> RoutingTrace:
    """Raises TraceError, naming the line, for what is malformed or out of order."""
    lines: list[int] = []
    calls: list[int] = []
    layers: list[int] = []
    ids: list[list[int]] = []
    gates: list[list[float]] = []
    row = -1
    for number, text in text_lines(path):
        call, row_found, layer, pairs = _line(path, number, text)
        row = row + 1 if calls and calls[-1] == call else 0
        if row_found != row or (calls and (call < calls[-1] or (row and layer != layers[-1]))):
            raise TraceError(
                f"line {number} is out of order",
                path=path,
                expected=f"row {row} of a call, calls rising, one layer a call",
                found=text[:60],
            )
        lines.append(number)
        calls.append(call)
        layers.append(layer)
        ids.append([pair[0] for pair in pairs])
        gates.append([pair[1] for pair in pairs])
    if not lines:
        raise empty(path)
    same_top_k(ids, lines, path, "line")
    starts = np.flatnonzero(np.diff(calls, prepend=-1))
    phase, step = passes(np.array(layers)[starts], np.diff(starts, append=len(calls)))
    request = np.zeros(len(lines), np.int32)
    choices = Choices(phase, request, step, np.array(layers), np.array(ids),
                      np.array(gates, np.float32), np.array(lines))  # fmt: skip
    return build(path, choices, given, "colibri ROUTE_TRACE")


def _line(path: Path, number: int, text: str) -> tuple[int, int, int, list[tuple[int, float]]]:
    found = LINE.fullmatch(" ".join(text.split()))
    try:
        if found is None:
            raise ValueError
        pairs = [pair.split(":") for pair in found[4].split()]
        values = [(int(name), float(gate)) for name, gate in pairs]
    except ValueError:
        raise malformed(
            path, f"line {number}", "<call> <row> <layer> <id>:<gate> …", text
        ) from None
    return int(found[1]), int(found[2]), int(found[3]), values
