"""Root-mean-square normalisation."""

from __future__ import annotations

import numpy as np

from .weights import Array


def rms_norm(x: Array, weight: Array, eps: float) -> Array:
    """x / sqrt(mean(x^2) + eps) * weight, over the last axis.   Source: arXiv:1910.07467."""
    x = x.astype(np.float64, copy=False)
    scale = 1.0 / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)
    return np.asarray(x * scale * weight.astype(np.float64, copy=False))
