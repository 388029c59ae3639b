"""Dispatch: assignments sorted by expert, so that each expert sees its tokens together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Dispatch:
    """Assignments in expert order; N is T * K less the dropped ones.

    sorted_token_ids : [N] int32, the token of each assignment.
    sorted_slots : [N] int32, which of its token's K choices it is.
    expert_offsets : [E+1] int32; expert e owns rows expert_offsets[e] to expert_offsets[e+1].
    """

    sorted_token_ids: NDArray[np.int32]
    sorted_slots: NDArray[np.int32]
    expert_offsets: NDArray[np.int32]

    @property
    def expert_load(self) -> NDArray[np.int64]:
        """[E] int64, tokens an expert."""
        return np.diff(self.expert_offsets).astype(np.int64)

    def rows(self, expert: int) -> slice:
        """The rows that belong to one expert."""
        return slice(int(self.expert_offsets[expert]), int(self.expert_offsets[expert + 1]))


def dispatch(topk_ids: NDArray[np.int32], num_experts: int) -> Dispatch:
    """Sort assignments by expert, stable in token order; dropped ones (-1) are left out.

    topk_ids : [T, K] int32.
    """
    flat = topk_ids.ravel()
    order = np.argsort(flat, kind="stable")
    order = order[np.count_nonzero(flat < 0) :]
    counts = np.bincount(flat[order], minlength=num_experts)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    token_ids, slots = np.divmod(order, topk_ids.shape[1])
    return Dispatch(token_ids.astype(np.int32), slots.astype(np.int32), offsets)
