"""vLLM's ``routed_experts``: whole numbers [tokens, MoE layers, top-k], ``.npy``; ``.npz`` of many.

Every array is one request. Where the prompt ends is not in it, so every token is taken as decode.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import TraceError
from ...reference.trace import DECODE, RoutingTrace
from .arrays import is_npy, is_npz, read_arrays
from .common import MAX_LAYERS, MAX_TOP_K, Choices, Given, build, empty


def recognise(head: bytes) -> bool:
    return is_npy(head) or is_npz(head)


def read(path: Path, given: Given) -> RoutingTrace:
    """Raises TraceError, naming the array, for another shape, mixed sizes or a negative id."""
    arrays = read_arrays(path)
    if not arrays:
        raise empty(path)
    for name, array in arrays.items():
        _check(path, name, array, next(iter(arrays.values())))
    tokens = [len(array) for array in arrays.values()]
    layers, top_k = next(iter(arrays.values())).shape[1:]
    ids = np.concatenate([array.reshape(-1, top_k).astype(np.int64) for array in arrays.values()])
    request = np.repeat(np.arange(len(tokens)), np.multiply(tokens, layers))
    step = np.concatenate([np.repeat(np.arange(count), layers) for count in tokens])
    layer = np.tile(np.arange(layers), sum(tokens))
    phase = np.full(len(step), DECODE)
    rows = np.arange(len(step))
    choices = Choices(phase, request, step, layer, ids, None, rows, "token row")
    return build(path, choices, given, "vLLM routed_experts; all tokens taken as decode")


def _check(path: Path, name: str, array: NDArray[Any], first: NDArray[Any]) -> None:
    label = f"array {name}" if name else "the array"
    if array.ndim != 3 or not (1 <= array.shape[1] <= MAX_LAYERS):
        raise TraceError(
            f"{label} has another shape",
            path=path,
            expected="[tokens, MoE layers, top-k]",
            found=list(array.shape),
            hint="counts [layers, experts] are read with --format counters",
        )
    if array.shape[1:] != first.shape[1:] or not 1 <= array.shape[2] <= MAX_TOP_K:
        raise TraceError(
            f"{label} has other layers or another top-k",
            path=path,
            expected=f"{list(first.shape[1:])}, top-k 1 to {MAX_TOP_K}",
            found=list(array.shape[1:]),
        )
