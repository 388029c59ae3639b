"""int8 weights with float32 scales."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..reference.weights import Array, ExpertWeights

PERCENTILE = 99.9
LARGEST = 127


@dataclass(frozen=True)
class QuantizedExpert:
    """gate, up : [I, H] int8;  down : [H, I] int8;  scales : float32, gate, up, down in turn,
    one a matrix or one a row."""

    gate: NDArray[np.int8]
    up: NDArray[np.int8]
    down: NDArray[np.int8]
    scales: NDArray[np.float32]


def quantize_matrix(matrix: Array, by_row: bool) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """scale = the 99.9th percentile of |w| over 127; values beyond it are clipped to +-127.

    matrix : [R, C] float.   Returns int8 [R, C] and float32 scales [R] or [1].
    A matrix or row of zeros has scale 1.
    """
    sizes = np.abs(matrix.astype(np.float64))
    top = np.percentile(sizes, PERCENTILE, axis=1 if by_row else None)
    if not np.all(top):  # nearly all zero: the percentile sees none of what is there
        top = np.where(top > 0, top, sizes.max(axis=1 if by_row else None))
    scales = np.atleast_1d(np.where(top > 0, top / LARGEST, 1.0)).astype(np.float32)
    scales = np.maximum(scales, np.finfo(np.float32).tiny)
    steps = np.rint(matrix / scales[:, None].astype(np.float64))
    return np.clip(steps, -LARGEST, LARGEST).astype(np.int8), scales


def dequantize_matrix(matrix: NDArray[np.int8], scales: NDArray[np.float32]) -> NDArray[np.float32]:
    """int8 [R, C] times its scales [R] or [1]; scales of a corrupt file may give infinity."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(matrix.astype(np.float32) * scales[:, None])


def quantize_expert(expert: ExpertWeights, by_row: bool) -> QuantizedExpert:
    """All three matrices."""
    parts = [quantize_matrix(matrix, by_row) for matrix in (expert.gate, expert.up, expert.down)]
    scales = np.concatenate([scale for _, scale in parts])
    return QuantizedExpert(parts[0][0], parts[1][0], parts[2][0], scales)


def dequantize_expert(expert: QuantizedExpert) -> ExpertWeights:
    """float32 matrices again."""
    matrices: list[Any] = [expert.gate, expert.up, expert.down]
    rows = [len(matrix) for matrix in matrices]
    counts = [1, 1, 1] if len(expert.scales) == 3 else rows
    scales = np.split(expert.scales, np.cumsum(counts)[:-1])
    gate, up, down = map(dequantize_matrix, matrices, scales)
    return ExpertWeights(gate, up, down)
