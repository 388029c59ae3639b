"""Counts of tokens an expert, as Megatron, OLMoE and others keep them: histograms.

Layer -> (expert -> count), layer -> list of counts, or counts [layers, experts]; as JSON, ``.npy``,
or a pickle, which is read without running it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import TraceError
from . import unpickle
from .arrays import is_npy, read_arrays
from .common import MAX_TABLE, Given, check_table, malformed, number_of_layer
from .histogram import MAX_COUNT, ExpertHistogram, from_counts

JSON = re.compile(rb'\s*\{\s*"(layer[ _.]?)?\d+"\s*:\s*[\[{]')
PICKLE = re.compile(rb"\x80[\x02-\x05]")


def recognise(head: bytes) -> bool:
    return PICKLE.match(head) is not None or JSON.match(head) is not None


def read(path: Path, given: Given) -> ExpertHistogram:
    """Raises TraceError, naming the entry, for whatever is no table of counts."""
    content = _content(path)
    if isinstance(content, np.ndarray):
        if content.ndim != 2:
            raise malformed(path, "the array", "counts [layers, experts]", list(content.shape))
        content = list(content)
    if not isinstance(content, dict | list):
        raise malformed(path, "the file", "counts by layer and expert", type(content).__name__)
    layers = content.items() if isinstance(content, dict) else enumerate(content)
    counts: dict[tuple[int, int], int] = {}
    listed = 0
    for name, value in layers:
        layer = number_of_layer(name)
        if layer is None:
            raise malformed(path, "a layer's name", "a number, or layer_ and a number", name)
        listed += np.size(value) if isinstance(value, np.ndarray) else _length(path, layer, value)
        if listed > MAX_TABLE:
            check_table(path, 1, listed)
        for expert, count in _experts(path, layer, value):
            counts[layer, expert] = _count(path, f"layer {layer}, expert {expert}", count)
    return from_counts(path, counts, given, "expert counters")


def _content(path: Path) -> Any:
    with path.open("rb") as file:
        head = file.read(16)
    if is_npy(head):
        return read_arrays(path)[""]
    if PICKLE.match(head):
        return unpickle.load(path)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise TraceError(
            "the counters cannot be read",
            path=path,
            expected="JSON, .npy or a pickle of plain counts",
            found=str(error)[:200],
            hint="the file may have been cut off while it was written",
        ) from error


def _length(path: Path, layer: int, value: Any) -> int:
    if not isinstance(value, dict | list | tuple):
        raise malformed(path, f"layer {layer}", "counts by expert", value)
    return len(value)


def _experts(path: Path, layer: int, value: Any) -> Iterator[tuple[int, Any]]:
    if isinstance(value, np.ndarray):
        if value.ndim != 1:
            raise malformed(path, f"layer {layer}", "a list of counts", list(value.shape))
        value = value.tolist()
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for name, count in pairs:
        named = int(name) if isinstance(name, str) and re.fullmatch("[0-9]{1,9}", name) else name
        if isinstance(named, bool) or not isinstance(named, int):
            raise malformed(path, f"an expert of layer {layer}", "a number", name)
        yield named, count


def _count(path: Path, where: str, value: Any) -> int:
    """The count as an int; floats only where they are whole."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 <= value <= MAX_COUNT or value != int(value):
        raise malformed(path, f"the count of {where}", "a whole number from 0", value)
    return int(value)
