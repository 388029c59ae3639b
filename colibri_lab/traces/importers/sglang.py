"""SGLang's expert recorder: ``torch.save`` files, of tensors only.

``records`` (or the file itself) with ``topk_ids_of_layer`` [layers, tokens, top-k], padded by -1,
is a trace: a record is a forward pass. In decode, one step a pass, the request is the row in the
batch; in prefill, where rows are tokens, it is 0.
``logical_count`` [steps, layers, experts] is a histogram.
"""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import DeviceUnavailable, TraceError
from ...reference.trace import DECODE, PREFILL, RoutingTrace
from .common import MAX_LAYERS, MAX_TOP_K, Choices, Given, build, check_table, empty, malformed
from .histogram import ExpertHistogram

LEGACY = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19"  # torch.save without a zip
ARCHIVE = re.compile(rb"PK\x03\x04.{26}[^\x00]*?data\.pkl", re.DOTALL)
IDS, COUNTS, DECODE_MODE = "topk_ids_of_layer", "logical_count", 2


def recognise(head: bytes) -> bool:
    return head.startswith(LEGACY) or ARCHIVE.match(head) is not None


def read(path: Path, given: Given) -> RoutingTrace | ExpertHistogram:
    """Raises TraceError for what is malformed, DeviceUnavailable where torch is not installed."""
    content = _load(path)
    if not isinstance(content, dict):
        raise malformed(path, "the file", f"a dict with records, {IDS} or {COUNTS}", type(content))
    if COUNTS in content:
        return _histogram(path, content[COUNTS])
    records = content.get("records", [content] if IDS in content else None)
    if not isinstance(records, list | tuple):
        raise malformed(path, "the file", f"records, {IDS} or {COUNTS}", list(content)[:10])
    parts: list[Choices] = []
    for number, entry in enumerate(records):
        start = int(parts[-1].step[-1]) + 1 if parts else 0
        found = _pass(path, number, entry, start)
        parts += [found] if len(found.layer) else []
    if not parts:
        raise empty(path)
    if len({part.ids.shape[1] for part in parts}) > 1:
        raise TraceError("the records have several top-k", path=path, expected="one top-k",
                         found=sorted({part.ids.shape[1] for part in parts}))  # fmt: skip
    phase, request, step, layer, ids = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("phase", "request", "step", "layer", "ids")
    )
    rows = np.arange(len(layer))
    choices = Choices(phase, request, step, layer, ids, None, rows, "token row")
    return build(path, choices, given, "SGLang expert recorder")


def _load(path: Path) -> Any:
    try:
        torch = import_module("torch")
    except ModuleNotFoundError as error:
        raise DeviceUnavailable(
            "SGLang's recordings are torch files, which need torch",
            path=path,
            hint="pip install torch, or save topk_ids_of_layer as .npy [tokens, layers, top-k]",
        ) from error
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise
    # torch raises whatever its parts do; each means that the file is not one of tensors.
    except Exception as error:
        raise TraceError(
            "the recording cannot be read",
            path=path,
            expected="a torch.save file of tensors and plain containers",
            found=str(error).strip().split("\n")[0][:200],
            hint="files that hold other objects are refused: loading them would run code",
        ) from error


def _numbers(path: Path, where: str, value: Any) -> NDArray[np.int64]:
    """[a, b, c] int64 of a tensor."""
    if not hasattr(value, "numpy") or value.ndim != 3 or value.is_floating_point():
        raise malformed(path, where, "a tensor of whole numbers with 3 axes", value)
    # A tensor of stride 0 says more than is stored, so its size is no measure of the file's.
    if value.numel() * value.element_size() > value.untyped_storage().nbytes():
        raise malformed(path, where, "a tensor as large as it says", list(value.shape))
    found: NDArray[np.int64] = value.numpy().astype(np.int64)
    return found


def _pass(path: Path, number: int, entry: Any, start: int) -> Choices:
    """One forward pass.   start : its first step."""
    where = f"record {number}"
    if not isinstance(entry, dict) or IDS not in entry:
        raise malformed(path, where, f"a dict with {IDS}", entry)
    ids = _numbers(path, f"{where}, {IDS}", entry[IDS])
    layers, tokens, top_k = ids.shape
    if not (1 <= layers <= MAX_LAYERS and 1 <= top_k <= MAX_TOP_K):
        raise malformed(path, where, "[layers, tokens, top-k]", list(ids.shape))
    decode = entry.get("forward_mode", DECODE_MODE if tokens == 1 else 0) == DECODE_MODE
    row, rank = np.tile(np.arange(tokens), layers), np.zeros(layers * tokens, np.int64)
    return Choices(
        phase=np.full(layers * tokens, DECODE if decode else PREFILL),
        request=row if decode else rank,
        step=start + (rank if decode else row),
        layer=np.repeat(np.arange(layers), tokens),
        ids=ids.reshape(-1, top_k),
        weights=None,
        lines=row,
    )


def _histogram(path: Path, value: Any) -> ExpertHistogram:
    counts = _numbers(path, COUNTS, value)
    check_table(path, *counts.shape[1:])
    if not len(counts) or (counts < 0).any():
        raise malformed(path, COUNTS, "[steps, layers, experts] counts from 0", list(counts.shape))
    load = counts.sum(axis=0)
    return ExpertHistogram(load, tuple(range(len(load))), "SGLang logical_count")
