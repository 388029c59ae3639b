"""How much routing repeats: from token to token, from layer to layer, within a batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..reference.trace import DECODE, RoutingTrace

BATCHES = (1, 2, 4, 8, 16, 32, 64)


def used_experts(trace: RoutingTrace) -> NDArray[np.bool_]:
    """[tokens, L, E] which experts each decode token took, requests one after the other."""
    kept = (trace.phase == DECODE) & (trace.expert >= 0)
    keys = trace.request[kept].astype(np.int64) << 32 | trace.step[kept]
    tokens, token = np.unique(keys, return_inverse=True)
    used = np.zeros((len(tokens), trace.num_layers, trace.num_experts), bool)
    used[token, trace.layer[kept], trace.expert[kept]] = True
    return used


def layer_overlap(used: NDArray[np.bool_]) -> NDArray[np.float64]:
    """[L-1] share of a layer's expert ids that the layer before took too, same token.

    Ids of different layers are different experts: overlap beyond chance (K/E) only means that a
    predictor may look at the layer before.
    """
    same = (used[:, 1:] & used[:, :-1]).sum(axis=(0, 2))
    total = used[:, 1:].sum(axis=(0, 2))
    return np.divide(same, total, out=np.full(len(total), np.nan), where=total > 0)


def distinct_by_batch(
    used: NDArray[np.bool_], batches: Sequence[int] = BATCHES
) -> dict[int, float]:
    """Batch size -> distinct experts a layer, mean over windows of so many tokens in a row."""
    found = {}
    for size in batches:
        windows = len(used) // size
        if windows:
            grouped = used[: windows * size].reshape(windows, size, *used.shape[1:])
            found[size] = float(grouped.any(axis=1).sum(axis=2).mean())
    return found


def independent_distinct(num_experts: int, top_k: int, batch_size: int) -> float:
    """Distinct experts that so many independent, even draws of top_k would touch.

    E * (1 - ((E - K) / E) ** B).
    """
    missed = ((num_experts - top_k) / num_experts) ** batch_size
    return num_experts * (1.0 - missed)


def reuse_steps(used: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Tokens from each use of an expert to its next use in the same layer; [N], 1 is the next."""
    token, layer, expert = np.nonzero(used)
    order = np.lexsort((token, expert, layer))
    token, layer, expert = token[order], layer[order], expert[order]
    same = (layer[1:] == layer[:-1]) & (expert[1:] == expert[:-1])
    return (token[1:] - token[:-1])[same]
