"""Rows that name themselves: one object for each token in each layer, whatever its keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import TraceError
from ...reference.trace import DECODE, PREFILL, RoutingTrace
from .common import (
    Choices,
    Given,
    build,
    empty,
    id_list,
    malformed,
    passes,
    runs,
    same_top_k,
    whole,
)

IDS = ("selected_ids", "topk_ids", "selected_experts", "experts")
WEIGHTS = ("gate_weights", "topk_weights", "router_softmax", "weights")
STEPS = ("token_idx", "token", "t")
LAYERS = ("layer_idx", "layer")
REQUESTS = ("req_id", "request_id", "prompt_id")
PHASES = {"prefill": PREFILL, "prompt": PREFILL, "decode": DECODE, "generate": DECODE}


@dataclass(frozen=True)
class Record:
    """One token in one layer; None: the file does not say."""

    line: int
    layer: int
    ids: list[int]
    weights: list[float] | None = None
    step: int | None = None
    request: int | str = 0
    phase: int | None = None


def record(entry: dict[str, Any], path: Path, line: int, unit: str = "line") -> Record:
    """Raises TraceError, naming the row and the key, for what is missing or of another type."""
    where = f"{unit} {line}"
    ids_key, layer_key = (_key(entry, names, path, where) for names in (IDS, LAYERS))
    step_key = next((name for name in STEPS if name in entry), None)
    ids = id_list(entry[ids_key], path, where, ids_key)
    return Record(
        line,
        whole(entry[layer_key], path, where, layer_key),
        ids,
        _weights(entry, len(ids), path, where),
        None if step_key is None else whole(entry[step_key], path, where, step_key),
        _request(entry, path, where),
        _phase(entry, path, where),
    )


def _key(entry: dict[str, Any], names: Sequence[str], path: Path, where: str) -> str:
    found = next((name for name in names if name in entry), None)
    if found is None:
        raise malformed(path, where, f"one of the keys {', '.join(names)}", sorted(entry)[:10])
    return found


def _weights(entry: dict[str, Any], top_k: int, path: Path, where: str) -> list[float] | None:
    name = next((name for name in WEIGHTS if name in entry), None)
    if name is None or entry[name] is None:
        return None
    value = entry[name]
    sound = isinstance(value, list) and len(value) == top_k
    if not sound or not all(type(item) in (int, float) and abs(item) < 1e30 for item in value):
        raise malformed(path, where, f"{name}: {top_k} finite numbers, one an expert", value)
    return [float(item) for item in value]


def _request(entry: dict[str, Any], path: Path, where: str) -> int | str:
    name = next((name for name in REQUESTS if name in entry), None)
    if name is None or entry[name] is None:
        return 0
    value = entry[name]
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise malformed(path, where, f"{name}: a number or a name", value)
    return value


def _phase(entry: dict[str, Any], path: Path, where: str) -> int | None:
    value = entry.get("phase")
    if value is None:
        return None
    if isinstance(value, str) and value.lower() in PHASES:
        return PHASES[value.lower()]
    if type(value) is int and value in (PREFILL, DECODE):
        return value
    raise malformed(path, where, f"phase: {', '.join(PHASES)}, 0 or 1", value)


def from_records(
    path: Path,
    records: Sequence[Record],
    given: Given,
    source: str,
    unit: str = "line",
    model: str = "",
    num_experts: int = 0,
) -> RoutingTrace:
    """The trace of these rows, in their order; requests are numbered as they first appear.

    Where the phase is missing, a layer call of more than one token is prefill; where the step is
    missing, tokens are counted by forward passes.
    """
    if not records:
        raise empty(path)
    lines = [entry.line for entry in records]
    same_top_k([entry.ids for entry in records], lines, path, unit)
    layer = np.array([entry.layer for entry in records])
    phase, step = _phase_and_step(path, records, layer)
    seen: dict[int | str, int] = {}
    request = np.array([seen.setdefault(entry.request, len(seen)) for entry in records])
    ids = np.array([entry.ids for entry in records])
    choices = Choices(phase, request, step, layer, ids, _all_weights(records, ids),
                      np.array(lines), unit)  # fmt: skip
    return build(path, choices, given, source, num_experts, model)


def _all_weights(records: Sequence[Record], ids: NDArray[Any]) -> NDArray[np.float32] | None:
    if all(entry.weights is None for entry in records):
        return None
    nothing = [float("nan")] * ids.shape[1]
    return np.array([entry.weights or nothing for entry in records], np.float32)


def _phase_and_step(
    path: Path, records: Sequence[Record], layer: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    phases, steps = ([getattr(entry, name) for entry in records] for name in ("phase", "step"))
    for name, values in (("phase", phases), ("step", steps)):
        missing = [value is None for value in values]
        if len(set(missing)) > 1:
            line = records[missing.index(not missing[0])].line
            raise TraceError(
                f"row {line} and the first differ in having a {name}", path=path,
                expected="all rows alike", found="some with, some without",
            )  # fmt: skip
    tokens = runs(layer) if steps[0] is None else _calls(records, layer)
    phase, step = passes(layer[np.cumsum(tokens) - tokens], tokens)
    return (
        phase if phases[0] is None else np.array(phases),
        step if steps[0] is None else np.array(steps),
    )


def _calls(records: Sequence[Record], layer: NDArray[Any]) -> NDArray[np.int64]:
    """[C] tokens in each layer call: within one, the layer stays and the step rises.

    In a file of one layer whose steps never restart, calls cannot be told: each row is one.
    """
    step = np.array([entry.step for entry in records])
    new = np.diff(layer, prepend=-1) != 0
    request = [entry.request for entry in records]
    changed = np.array([True, *(a != b for a, b in pairwise(request))])
    starts = np.flatnonzero(new | (np.diff(step, prepend=-1) <= 0) & ~changed)
    return np.diff(starts, append=len(layer)) if len(starts) > 1 else np.ones(len(layer), np.int64)
