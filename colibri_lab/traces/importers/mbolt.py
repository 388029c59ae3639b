"""mbolt's stream of little-endian int32: magic, version 1, experts; then the layer calls.

A call is ``layer, k, n_tokens, ids[n_tokens * k]``, token after token, in the order they ran.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...errors import TraceError
from ...reference.trace import RoutingTrace
from .common import MAX_LAYERS, MAX_TOP_K, Choices, Given, build, check_table, empty, passes

MAGIC = b"MBLT"
HEADER_WORDS = 3


def recognise(head: bytes) -> bool:
    return head.startswith(MAGIC)


def read(path: Path, given: Given) -> RoutingTrace:
    """Raises TraceError, naming the byte, where the stream ends early or makes no sense."""
    data = path.read_bytes()
    words = np.frombuffer(data, "<i4", len(data) // 4)
    if not recognise(data) or len(data) % 4 or len(words) < HEADER_WORDS or words[1] != 1:
        raise TraceError(
            "the stream's header is not one",
            path=path,
            offset=len(data) // 4 * 4 if len(data) % 4 else 0,
            expected="MBLT, version 1, the number of experts, and whole int32 words",
            found=f"{len(data)} bytes: {data[:12]!r}",
            hint="the file may have been cut off while it was written",
        )
    num_experts = int(words[2])
    check_table(path, 1, num_experts)
    calls = _calls(path, words)
    layer, tokens = (np.array(column) for column in list(zip(*calls, strict=True))[:2])
    ids = np.concatenate([found for _, _, found in calls])
    phase, step = passes(layer, tokens)
    choices = Choices(phase, np.zeros(len(step), np.int32), step, np.repeat(layer, tokens), ids,
                      None, np.arange(len(step)), "token row")  # fmt: skip
    return build(path, choices, given, "mbolt", num_experts)


def _calls(path: Path, words: NDArray[np.int32]) -> list[tuple[int, int, NDArray[np.int32]]]:
    """(layer, tokens, [tokens, k] ids) of every call."""
    calls: list[tuple[int, int, NDArray[np.int32]]] = []
    at = HEADER_WORDS
    while at < len(words):
        layer, top_k, tokens = ([*words[at : at + 3].tolist(), 0, 0, 0])[:3]
        sound = 0 <= layer < MAX_LAYERS and 1 <= top_k <= MAX_TOP_K and tokens >= 1
        end = at + 3 + top_k * tokens
        if not sound or end > len(words):
            raise TraceError(
                "a layer call makes no sense, or is cut off",
                path=path,
                offset=4 * at,
                expected=f"layer, k, tokens, and their ids in {4 * (len(words) - at)} bytes",
                found=words[at : at + 3].tolist(),
                hint="the file may have been cut off while it was written",
            )
        if calls and top_k != calls[0][2].shape[1]:
            raise TraceError(
                "a layer call has another top-k", path=path, offset=4 * at,
                expected=calls[0][2].shape[1], found=top_k,
            )  # fmt: skip
        calls.append((layer, tokens, words[at + 3 : end].reshape(tokens, top_k)))
        if (calls[-1][2] < 0).any():
            raise TraceError(
                "a layer call has a negative expert id", path=path, offset=4 * at,
                expected="0 or more", found=int(calls[-1][2].min()),
            )  # fmt: skip
        at = end
    if not calls:
        raise empty(path)
    return calls
