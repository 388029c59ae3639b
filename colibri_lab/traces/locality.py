"""How much routing repeats: from token to token, from layer to layer, within a batch.

Everything is worked out of the uses themselves: a table of tokens by layers by experts would take
far more memory than the trace, of which a token names a few experts alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..reference.trace import DECODE, RoutingTrace

BATCHES = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True)
class UsedExperts:
    """Which experts the decode tokens took, each once, in the order of layer, expert and token.

    token : [N] int64, counted through the requests, one after the other.   layer, expert : [N].
    """

    token: NDArray[np.int64]
    layer: NDArray[np.int64]
    expert: NDArray[np.int64]
    num_tokens: int
    num_layers: int
    num_experts: int

    def __len__(self) -> int:
        return len(self.token)

    @property
    def same_expert(self) -> NDArray[np.bool_]:
        """[N-1] whether a use is followed by one of the same layer and expert."""
        same_layer = self.layer[1:] == self.layer[:-1]
        return np.asarray(same_layer & (self.expert[1:] == self.expert[:-1]))


def used_experts(trace: RoutingTrace) -> UsedExperts:
    """The experts that the decode tokens took; memory grows with the trace's rows alone."""
    kept = (trace.phase == DECODE) & (trace.expert >= 0)
    keys = trace.request[kept].astype(np.int64) << 32 | trace.step[kept]
    tokens, token = np.unique(keys, return_inverse=True)
    count = max(len(tokens), 1)
    pair = trace.layer[kept].astype(np.int64) * trace.num_experts + trace.expert[kept]
    pair, token = np.divmod(np.unique(pair * count + token), count)
    layer, expert = np.divmod(pair, trace.num_experts)
    return UsedExperts(token, layer, expert, len(tokens), trace.num_layers, trace.num_experts)


def layer_overlap(used: UsedExperts) -> NDArray[np.float64]:
    """[L-1] share of a layer's expert ids that the layer before took too, same token.

    Ids of different layers are different experts: overlap beyond chance (K/E) only means that a
    predictor may look at the layer before.
    """
    keys = (used.layer * used.num_experts + used.expert) * used.num_tokens + used.token
    before = keys - used.num_experts * used.num_tokens
    again = np.isin(before, keys, assume_unique=True)
    same, total = (
        np.bincount(layers, minlength=used.num_layers)[1:]
        for layers in (used.layer[again], used.layer)
    )
    return np.divide(same, total, out=np.full(len(total), np.nan), where=total > 0)


def distinct_by_batch(used: UsedExperts, batches: Sequence[int] = BATCHES) -> dict[int, float]:
    """Batch size -> distinct experts a layer, mean over windows of so many tokens in a row."""
    found = {}
    for size in batches:
        windows = used.num_tokens // size
        if windows:
            window = used.token // size
            first = np.append(True, ~used.same_expert | (window[1:] != window[:-1]))
            distinct = np.count_nonzero(first[: len(used)] & (window < windows))
            found[size] = float(distinct / (windows * used.num_layers))
    return found


def independent_distinct(num_experts: int, top_k: int, batch_size: int) -> float:
    """Distinct experts that so many independent, even draws of top_k would touch.

    E * (1 - ((E - K) / E) ** B).
    """
    missed = ((num_experts - top_k) / num_experts) ** batch_size
    return num_experts * (1.0 - missed)


def reuse_steps(used: UsedExperts) -> NDArray[np.int64]:
    """Tokens from each use of an expert to its next use in the same layer; [N], 1 is the next."""
    return np.asarray(np.diff(used.token)[used.same_expert])
