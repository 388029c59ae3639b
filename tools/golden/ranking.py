"""What a router ranks experts by, and how near to a draw its decisions are."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

Array = NDArray[Any]


class Ranking(NamedTuple):
    """choice : [T, E] float64, -inf where an expert's group is out.   groups : [T, G], or G 0."""

    choice: torch.Tensor
    groups: torch.Tensor


def ranking(router: Any, logits: torch.Tensor) -> Ranking:
    """Probabilities; for DeepSeek-V3 corrected sigmoids; among the best groups where it has any.

    Only for the order of what transformers chose, and for how sure it was: `agrees` holds it
    against the choice itself.
    """
    correction = getattr(router, "e_score_correction_bias", None)
    wide = logits.double()
    choice = wide.softmax(dim=-1) if correction is None else wide.sigmoid() + correction.double()
    if correction is None and getattr(router, "topk_method", "") != "group_limited_greedy":
        return Ranking(choice, choice.new_empty(len(choice), 0))
    grouped = choice.unflatten(-1, (router.num_group, -1))
    counted = 1 if correction is None else 2
    groups = grouped.topk(counted, dim=-1).values.sum(dim=-1)
    best = groups.topk(router.topk_group, dim=-1).indices
    out = torch.ones_like(groups, dtype=torch.bool).scatter(1, best, False)
    return Ranking(grouped.masked_fill(out[..., None], -torch.inf).flatten(1), groups)


def best_first(
    choice: torch.Tensor, ids: torch.Tensor, weights: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """ids and weights [T, K] in the order of `choice`: DeepSeek's routers leave them in any."""
    order = choice.gather(1, ids).argsort(dim=-1, descending=True, stable=True)
    return ids.gather(1, order), weights.gather(1, order)


def agrees(choice: Array, topk_ids: Array) -> bool:
    """Whether topk_ids [..., K] are the best of `choice` [..., E], the best first."""
    top_k = topk_ids.shape[-1]
    return bool(np.array_equal(np.argsort(-choice, axis=-1, kind="stable")[..., :top_k], topk_ids))


def router_gaps(choice: Array, top_k: int) -> tuple[float, float]:
    """The smallest distance of the K-th from the next score, and of two within the K.

    Either is infinite where there is no such pair. Above the rounding of float32, both together
    make topk_ids, order included, the same in float32 and float64.
    """
    best_first = -np.sort(-choice, axis=-1)
    with np.errstate(invalid="ignore"):  # of two that are out
        gaps = best_first[..., :-1] - best_first[..., 1:]
    boundary, order = gaps[..., top_k - 1 : top_k], gaps[..., : top_k - 1]
    return float(boundary.min(initial=np.inf)), float(order.min(initial=np.inf))
