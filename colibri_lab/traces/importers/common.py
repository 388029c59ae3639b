"""What the importers share: checked sizes, checked numbers, and a trace made of choices.

An importer turns its file into `Choices`, one row for each token in each layer, in the order that
the engine ran them; `build` checks every row and makes the trace.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import TraceError
from ...reference.trace import COLUMNS, DECODE, PREFILL, RoutingTrace
from ..parquet import MAX_TABLE

MAX_LAYERS = 10_000
MAX_TOP_K = 4096
INT32_MAX = 2**31 - 1
GUESSED_EXPERTS = "experts counted up to the highest id"


@dataclass(frozen=True)
class Given:
    """What a user says of a file that does not say it itself; 0 where nothing is said.

    expert_bytes : of one expert, as stored.   num_experts : of a layer.
    """

    expert_bytes: int = 0
    num_experts: int = 0


@dataclass(frozen=True)
class Choices:
    """One row for each token in each layer, in the order of the file.

    phase, request, step, layer : [N].   ids : [N, K], best first, -1 where there is none.
    weights : [N, K], or None where the file has none.   lines : [N], the row's name in errors.
    """

    phase: NDArray[Any]
    request: NDArray[Any]
    step: NDArray[Any]
    layer: NDArray[Any]
    ids: NDArray[Any]
    weights: NDArray[Any] | None
    lines: NDArray[Any]
    unit: str = "line"


def build(
    path: Path, choices: Choices, given: Given, source: str, num_experts: int = 0, model: str = ""
) -> RoutingTrace:
    """The trace of these choices.

    num_experts : what the file says, 0 where it says nothing.
    Layers are numbered anew from 0 in their order; slots that nothing uses are padding and go.
    Raises TraceError, naming the row, for whatever is out of range.
    """
    if not len(choices.layer):
        raise empty(path)
    num_experts, notes = _num_experts(path, choices, given, num_experts)
    for name, limit in (("layer", MAX_LAYERS), ("step", INT32_MAX), ("request", INT32_MAX)):
        check_range(path, name, getattr(choices, name), 0, limit, choices.lines, choices.unit)
    rows, top_k = _used(path, choices)
    if top_k < choices.ids.shape[1]:
        notes.append(f"top-k recorded as {choices.ids.shape[1]}, {top_k} used")
    layers, layer = np.unique(choices.layer[rows], return_inverse=True)
    check_table(path, len(layers), num_experts)
    if (layers != np.arange(len(layers))).any():
        notes.append(f"layer 0 is the engine's {layers[0]}")
    columns = {name: getattr(choices, name)[rows] for name in ("phase", "request", "step")}
    weights = choices.weights
    if weights is None:
        weights = np.full(choices.ids.shape, np.nan, np.float32)
    columns = {
        name: np.repeat(found, top_k) for name, found in (columns | {"layer": layer}).items()
    }
    columns["slot"] = np.tile(np.arange(top_k), int(rows.sum()))
    columns |= {
        "expert": choices.ids[rows, :top_k].ravel(),
        "weight": weights[rows, :top_k].ravel(),
    }
    typed: dict[str, Any] = {name: columns[name].astype(dtype) for name, dtype in COLUMNS.items()}
    return RoutingTrace(
        **typed,
        num_layers=len(layers),
        num_experts=num_experts,
        top_k=top_k,
        expert_bytes=(given.expert_bytes,) * len(layers),
        model=model,
        source="; ".join([source, *notes]),
    )


def _used(path: Path, choices: Choices) -> tuple[NDArray[np.bool_], int]:
    """[N] whether a token has an expert, and the slots up to the last that any token uses."""
    kept: NDArray[np.bool_] = choices.ids >= 0
    if not kept.any():
        raise TraceError("no token has an expert", path=path, expected="ids of 0 or more", found=-1)
    tokens: NDArray[np.bool_] = np.any(kept, axis=1)
    return tokens, int(np.flatnonzero(kept.any(axis=0))[-1]) + 1


def _num_experts(path: Path, choices: Choices, given: Given, stored: int) -> tuple[int, list[str]]:
    """Experts a layer, every id checked against it, and what is to be said of where it is from."""
    known = stored or given.num_experts
    check_range(path, "expert id", choices.ids, -1, known or MAX_TABLE, choices.lines, choices.unit)
    return known or int(choices.ids.max()) + 1, [] if known else [GUESSED_EXPERTS]


def check_range(
    path: Path,
    name: str,
    values: NDArray[Any],
    low: int,
    high: int,
    lines: NDArray[Any],
    unit: str = "line",
) -> None:
    """TraceError, naming the first row that has a value outside low to high - 1.

    values : [N] or [N, K].
    """
    bad = (values < low) | (values >= high)
    if bad.any():
        index = tuple(np.argwhere(bad)[0])
        raise TraceError(
            f"{name} is out of range in {unit} {lines[index[0]]}",
            path=path,
            expected=f"{low} to {high - 1}",
            found=values[index],
            hint="the file is corrupt, or of a model with more experts than was said",
        )


def check_table(path: Path, num_layers: int, num_experts: int) -> None:
    """TraceError where a table of layers and experts would be absurdly large, or empty."""
    if not (1 <= num_layers <= MAX_LAYERS and 1 <= num_experts * num_layers <= MAX_TABLE):
        raise TraceError(
            "the model's sizes make no sense",
            path=path,
            expected=f"1 to {MAX_LAYERS} layers, at most {MAX_TABLE} experts in all",
            found=f"{num_layers} layers of {num_experts} experts",
        )


def empty(path: Path) -> TraceError:
    return TraceError(
        "the trace is empty",
        path=path,
        expected="one routed token or more",
        found="none",
        hint="was anything generated while it was recorded?",
    )


def malformed(path: Path, where: str, expected: str, found: Any, hint: str = "") -> TraceError:
    """The error about a row that does not read; long finds are cut."""
    return TraceError(
        f"{where} is malformed",
        path=path,
        expected=expected,
        found=repr(found)[:100],
        hint=hint or "the file may have been cut off while it was written, or is another format",
    )


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """(number from 1, line) of every line that is not blank; TraceError where it is no text."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise TraceError(
            "the trace is no text", path=path, offset=error.start, expected="UTF-8 text"
        ) from error
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield number, line.strip()


def whole(value: Any, path: Path, where: str, name: str, low: int = 0) -> int:
    """The value as an int, if it is one (2.0 and true are not) and fits in 32 bits."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= INT32_MAX:
        raise malformed(path, where, f"{name}: a whole number from {low} to {INT32_MAX}", value)
    return value


def id_list(value: Any, path: Path, where: str, name: str) -> list[int]:
    """The value as expert ids, if it is a list of them (-1: none)."""
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_TOP_K:
        raise malformed(path, where, f"{name}: a list of expert ids", value)
    return [whole(item, path, where, name, low=-1) for item in value]


def same_top_k(rows: Sequence[Sequence[Any]], lines: Sequence[int], path: Path, unit: str) -> None:
    """TraceError, naming the first row that has another number of experts than the first."""
    for line, row in zip(lines, rows, strict=True):
        if len(row) != len(rows[0]):
            raise TraceError(
                f"{unit} {line} has another top-k",
                path=path,
                expected=f"{len(rows[0])} experts, as in {unit} {lines[0]}",
                found=len(row),
                hint="pad with -1 where a token has fewer experts",
            )


def runs(layer: NDArray[Any]) -> NDArray[np.int64]:
    """[C] tokens in each layer call, where a call is a run of rows of one layer.

    A file with one layer is one run: there every row is taken as a call of its own.
    """
    starts = np.flatnonzero(np.diff(layer, prepend=-1))
    if len(starts) <= 1:
        return np.ones(len(layer), np.int64)
    return np.diff(starts, append=len(layer))


def passes(
    layer: NDArray[Any], tokens: NDArray[Any]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Phase and step of each row of layer calls in the order that they ran.

    layer, tokens : [C] a call's layer and its rows.
    A forward pass begins where the layer does not rise. More than one token in it: prefill.
    Engines leave out what the last layer need not compute, so a call with fewer tokens than its
    pass holds the last ones.
    """
    begins = np.diff(layer, prepend=INT32_MAX) <= 0
    of_call = np.cumsum(begins) - 1
    size = np.maximum.reduceat(tokens, np.flatnonzero(begins))
    start = np.cumsum(size) - size
    first = (start + size)[of_call] - tokens
    within = np.arange(tokens.sum()) - np.repeat(np.cumsum(tokens) - tokens, tokens)
    phase = np.repeat(np.where(size[of_call] > 1, PREFILL, DECODE), tokens)
    return phase.astype(np.uint8), np.repeat(first, tokens) + within


def number_of_layer(name: Any) -> int | None:
    """3 of 3, "3", "layer_3" or "layer.3"; None of anything else."""
    if isinstance(name, int) and not isinstance(name, bool):
        return name
    found = re.fullmatch(r"(?:layer[ _.]?)?(\d{1,9})", name) if isinstance(name, str) else None
    return int(found[1]) if found else None
