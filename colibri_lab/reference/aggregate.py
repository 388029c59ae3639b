"""Aggregation: each token's expert outputs, weighted and summed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .dispatch import Dispatch
from .weights import Array


def aggregate(
    expert_outputs: Array, plan: Dispatch, topk_weights: NDArray[Any], num_tokens: int
) -> NDArray[np.float64]:
    """out[t] = sum over the token's assignments of weight * output.

    expert_outputs : [N, H] in the order of `plan`.   topk_weights : [T, K].
    Returns [T, H] float64; a token without an assignment gets zeros.
    """
    out = np.zeros((num_tokens, expert_outputs.shape[1]), np.float64)
    weights = topk_weights[plan.sorted_token_ids, plan.sorted_slots].astype(np.float64)
    np.add.at(out, plan.sorted_token_ids, weights[:, None] * expert_outputs)
    return out
