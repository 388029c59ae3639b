"""Numbers that describe a routing or compare two results."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .weights import Array


def entropy_bits(counts: NDArray[Any], axis: int = -1) -> NDArray[np.float64]:
    """Entropy of the distribution that `counts` make along an axis, in bits; 0 where all are 0."""
    counts = np.asarray(counts, np.float64)
    total = counts.sum(axis=axis, keepdims=True)
    shares = np.divide(counts, total, out=np.zeros_like(counts), where=total > 0)
    logs = np.log2(shares, out=np.zeros_like(shares), where=shares > 0)
    return np.asarray(np.abs((shares * logs).sum(axis=axis)))


def max_over_mean(load: NDArray[Any], axis: int = -1) -> NDArray[np.float64]:
    """The busiest expert's tokens over the mean: 1 is balance, E the worst; nan where empty."""
    load = np.asarray(load, np.float64)
    mean = load.mean(axis=axis)
    with np.errstate(invalid="ignore"):
        return np.asarray(load.max(axis=axis) / mean)


def balancedness(load: NDArray[Any], axis: int = -1) -> NDArray[np.float64]:
    """Mean load over the busiest expert's: 0 to 1, 1 is perfect balance; nan if empty."""
    return np.asarray(1.0 / max_over_mean(load, axis))


def relative_error(found: Array, reference: Array) -> float:
    """||found - reference|| / ||reference||, in float64; 0 where both are zero."""
    reference = np.asarray(reference, np.float64)
    difference = float(np.linalg.norm(np.asarray(found, np.float64) - reference))
    size = float(np.linalg.norm(reference))
    if size == 0.0:
        return 0.0 if difference == 0.0 else float("inf")
    return difference / size


def log_softmax(logits: Array) -> NDArray[np.float64]:
    """log of the softmax over the last axis, in float64."""
    logits = np.asarray(logits, np.float64)
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))


def next_token_losses(logits: Array, token_ids: NDArray[Any]) -> NDArray[np.float64]:
    """-log p of each next token, in nats.

    logits : [B, S, V].   token_ids : [B, S].   Returns [B, S-1] float64.
    """
    log_probabilities = log_softmax(logits[:, :-1])
    targets = token_ids[:, 1:, None]
    return np.asarray(-np.take_along_axis(log_probabilities, targets, axis=-1)[..., 0])


def perplexity(losses: Array) -> float:
    """exp of the mean loss in nats."""
    return float(np.exp(np.mean(losses)))
