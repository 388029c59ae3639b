"""BigMoeOnEdge's ``route_trace v1``: comments with model and sizes, then CSV, a row an assignment.

``turn,phase,step,layer,slot,expert,weight,residency,expert_bytes``; phase 0 is prefill, 1 decode;
the newer ``dropped`` column is 1 where the engine dropped the assignment. What the engine saw of
its own cache (residency) is not kept: replays find it anew.
Source: github.com/Helldez/BigMoeOnEdge, docs/bench-data.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...errors import TraceError
from ...reference.trace import RoutingTrace
from .common import check_table

MAGIC = b"# route_trace v1"
COLUMNS = ("turn", "phase", "step", "layer", "slot", "expert", "weight")
SIZES = re.compile(r"n_layer=(\d+) n_expert=(\d+) n_expert_used=(\d+)")
LIMITS = {"phase": 2, "turn": 2**31, "step": 2**31}
LAYER = re.compile(r"# layer=(\d+) expert_bytes=(\d+)")


def recognise(head: bytes) -> bool:
    return head.startswith(MAGIC)


def read(path: Path) -> RoutingTrace:
    """Raises TraceError, naming the line, for whatever is missing, malformed or out of range."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise TraceError(
            "the trace is no text", path=path, offset=error.start, expected="UTF-8 text"
        ) from error
    comments = [line for line in lines if line.startswith("#")]
    model, num_layers, num_experts, top_k = _model(comments, path)
    rows = _rows(lines[len(comments) :], len(comments) + 1, path)
    _check(rows, {**LIMITS, "layer": num_layers, "slot": top_k, "expert": num_experts}, path)
    expert = rows["expert"].astype(np.int32)
    if "dropped" in rows:
        expert[rows["dropped"] > 0] = -1
    return RoutingTrace(
        phase=rows["phase"].astype(np.uint8),
        request=rows["turn"].astype(np.int32),
        step=rows["step"].astype(np.int32),
        layer=rows["layer"].astype(np.int32),
        slot=rows["slot"].astype(np.int32),
        expert=expert,
        weight=rows["weight"].astype(np.float32),
        num_layers=num_layers,
        num_experts=num_experts,
        top_k=top_k,
        expert_bytes=_expert_bytes(comments, num_layers, path),
        model=model,
        source="route_trace v1",
    )


def _model(comments: list[str], path: Path) -> tuple[str, int, int, int]:
    line = next((line for line in comments if "model=" in line), "")
    sizes = SIZES.search(line)
    if sizes is None:
        raise TraceError(
            "the trace does not say what model it is of",
            path=path,
            expected="# model=… n_layer=… n_expert=… n_expert_used=…",
            found=line or "no such line",
        )
    name = line.partition("model=")[2].split()[0].rpartition("/")[2]
    num_layers, num_experts, top_k = map(int, sizes.groups())
    check_table(path, num_layers, num_experts)
    if not 1 <= top_k <= num_experts:
        raise TraceError(
            "the model's sizes make no sense", path=path, expected="1 to n_expert used", found=line
        )
    return name, num_layers, num_experts, top_k


def _expert_bytes(comments: list[str], num_layers: int, path: Path) -> tuple[int, ...]:
    found = {int(m[1]): int(m[2]) for line in comments if (m := LAYER.match(line))}
    missing = sorted(set(range(num_layers)) - set(found))
    if missing:
        raise TraceError(
            "the trace lacks the size of a layer's experts",
            path=path,
            expected=f"# layer={missing[0]} expert_bytes=…",
        )
    return tuple(found[layer] for layer in range(num_layers))


def _rows(lines: list[str], first: int, path: Path) -> dict[str, NDArray[np.float64]]:
    """Column -> values.   first : the line number of the heading."""
    names = lines[0].split(",") if lines else []
    if tuple(names[: len(COLUMNS)]) != COLUMNS:
        raise TraceError(
            "the trace has other columns",
            path=path,
            expected=",".join(COLUMNS),
            found=",".join(names),
        )
    if len(lines) < 2:
        raise TraceError("the trace is empty", path=path, expected="a row an assignment")
    try:
        values = np.array([line.split(",") for line in lines[1:]], np.float64)
    except ValueError:
        raise _bad_line(lines, names, first, path) from None
    if values.shape[1] != len(names):
        raise _bad_line(lines, names, first, path)
    return dict(zip(names, values.T, strict=True))


def _bad_line(lines: list[str], names: list[str], first: int, path: Path) -> TraceError:
    """The error about the first line that does not read as numbers."""
    for number, line in enumerate(lines[1:], first + 1):
        try:
            if len([float(field) for field in line.split(",")]) == len(names):
                continue
        except ValueError:
            pass
        return TraceError(
            f"line {number} is malformed",
            path=path,
            expected=f"{len(names)} numbers",
            found=repr(line[:80]),
            hint="the file may have been cut off while it was written",
        )
    raise AssertionError("no line is malformed")


def _check(rows: dict[str, NDArray[np.float64]], sizes: dict[str, int], path: Path) -> None:
    for name, size in sizes.items():
        values = rows[name]
        bad = (values < 0) | (values >= size) | (values != np.floor(values))
        if bad.any():
            row = int(np.argmax(bad))
            raise TraceError(
                f"{name} is out of range in row {row}",
                path=path,
                expected=f"0 to {size - 1}",
                found=values[row],
            )
