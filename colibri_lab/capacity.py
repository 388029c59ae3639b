"""Capacity policies: what happens to assignments past an expert's capacity."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from .errors import InputError, ShapeError

Kind = Literal["none", "hard", "soft"]
Order = Literal["first", "weight"]
DROPPED = -1
SPELLINGS = "none, hard:FACTOR, hard:FACTOR:weight, soft:FACTOR or soft:FACTOR:OVERFLOW"


@dataclass(frozen=True)
class Capacity:
    """A capacity policy.

    kind : ``none`` keeps every assignment; ``hard`` drops those past the capacity; ``soft`` lets
        `overflow` more through and moves the rest to the token's next-best expert with room.
    factor : capacity_factor; expert_capacity = ceil(factor * T * K / E).
    overflow : share of the capacity that ``soft`` lets through on top of it.
    order : who keeps a place: ``first`` come in token order, or the highest ``weight``.
    """

    kind: Kind = "none"
    factor: float = math.inf
    overflow: float = 0.0
    order: Order = "first"

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind) or self.order not in get_args(Order):
            raise InputError(
                "capacity policy is not known",
                expected=f"a kind of {', '.join(get_args(Kind))}; an order of first or weight",
                found=f"{self.kind}, {self.order}",
            )
        if self.kind != "none" and not 0 < self.factor < math.inf:
            raise InputError(
                "capacity_factor must be positive and finite",
                expected="a number over 0, for example 1.25",
                found=self.factor,
            )
        if not 0 <= self.overflow < math.inf:
            raise InputError(
                "capacity overflow must be 0 or more", expected="0 or more", found=self.overflow
            )

    @classmethod
    def none(cls) -> Capacity:
        return cls()

    @classmethod
    def hard(cls, factor: float, order: Order = "first") -> Capacity:
        return cls("hard", factor, order=order)

    @classmethod
    def soft(cls, factor: float, overflow: float = 0.25) -> Capacity:
        return cls("soft", factor, overflow)

    @classmethod
    def parse(cls, text: str) -> Capacity:
        """Read what ``str`` writes; InputError lists the spellings."""
        kind, *arguments = text.strip().split(":")
        try:
            if kind == "none" and not arguments:
                return cls.none()
            if kind == "hard" and len(arguments) == 1:
                return cls.hard(float(arguments[0]))
            if kind == "hard" and len(arguments) == 2 and arguments[1] == "weight":
                return cls.hard(float(arguments[0]), "weight")
            if kind == "soft" and len(arguments) in (1, 2):
                return cls.soft(*(float(argument) for argument in arguments))
        except InputError:
            raise
        except ValueError:
            pass
        raise InputError("capacity policy is not known", expected=SPELLINGS, found=text)

    def __str__(self) -> str:
        if self.kind == "none":
            return "none"
        if self.kind == "soft":
            spilled = f":{_number(self.overflow)}" if self.overflow != 0.25 else ""
            return f"soft:{_number(self.factor)}{spilled}"
        return f"hard:{_number(self.factor)}" + (":weight" if self.order == "weight" else "")


@dataclass(frozen=True)
class CapacityResult:
    """Assignments after a capacity policy.

    topk_ids : [T, K] int32, -1 where the assignment was dropped.
    topk_weights : [T, K], 0 where dropped.
    dropped, moved : [T, K] bool.
    """

    topk_ids: NDArray[np.int32]
    topk_weights: NDArray[Any]
    dropped: NDArray[np.bool_]
    moved: NDArray[np.bool_]

    @property
    def dropped_fraction(self) -> float:
        return _share(self.dropped)

    @property
    def moved_fraction(self) -> float:
        return _share(self.moved)


def expert_capacity(factor: float, num_tokens: int, top_k: int, num_experts: int) -> int:
    """Places an expert has in one layer call: ceil(factor * T * K / E)."""
    # Rounded first: 1.1 * 10 is 11.000000000000002, and must not become 12.
    return math.ceil(round(factor * num_tokens * top_k / num_experts, 9))


def apply_capacity(
    topk_ids: NDArray[np.int32],
    topk_weights: NDArray[Any],
    choice_scores: NDArray[Any],
    capacity: Capacity,
) -> CapacityResult:
    """Drop or move the assignments that do not fit.

    topk_ids : [T, K] int32.   topk_weights : [T, K].
    choice_scores : [T, E], what experts are ranked by, as a rule router_logits; -inf: not allowed.

    A dropped assignment has weight 0 and the token's other weights stay as they are (the residual
    stream carries the token, as in Switch Transformers, arXiv:2101.03961, section 2.2). A moved
    assignment keeps the weight of the place it had.
    """
    if topk_ids.shape != topk_weights.shape or len(topk_ids) != len(choice_scores):
        raise ShapeError(
            "routing arrays do not belong together",
            expected="topk_ids [T,K], topk_weights [T,K], choice_scores [T,E]",
            found=f"{topk_ids.shape}, {topk_weights.shape}, {choice_scores.shape}",
        )
    num_tokens, top_k = topk_ids.shape
    none = np.zeros(topk_ids.shape, bool)
    if capacity.kind == "none":
        return CapacityResult(topk_ids, topk_weights, none, none.copy())
    num_experts = choice_scores.shape[1]
    places = expert_capacity(capacity.factor, num_tokens, top_k, num_experts)
    limit = math.floor(round(places * (1 + capacity.overflow), 9))
    kept = _places_in_queue(topk_ids, topk_weights, capacity.order) < limit
    ids = np.where(kept, topk_ids, DROPPED).astype(np.int32)
    if capacity.kind == "soft":
        _move_to_next_best(ids, topk_ids, choice_scores, limit)
    dropped = ids == DROPPED
    moved = ~kept & ~dropped
    return CapacityResult(ids, np.where(dropped, 0, topk_weights), dropped, moved)


def _places_in_queue(
    topk_ids: NDArray[np.int32], topk_weights: NDArray[Any], order: Order
) -> NDArray[np.int64]:
    """[T, K]: how many assignments stand before this one at the same expert."""
    ids = topk_ids.ravel()
    precedence = (
        np.arange(ids.size)
        if order == "first"
        else np.argsort(-topk_weights.ravel(), kind="stable")
    )
    by_expert = precedence[np.argsort(ids[precedence], kind="stable")]
    counts = np.bincount(ids) if ids.size else np.zeros(0, np.int64)
    starts = np.cumsum(counts) - counts
    places = np.empty(ids.size, np.int64)
    places[by_expert] = np.arange(ids.size) - starts[ids[by_expert]]
    return places.reshape(topk_ids.shape)


def _move_to_next_best(
    ids: NDArray[np.int32],
    chosen: NDArray[np.int32],
    choice_scores: NDArray[Any],
    limit: int,
) -> None:
    """Give each dropped assignment, in token order, the best expert left that has room."""
    load = np.bincount(ids[ids >= 0], minlength=choice_scores.shape[1])
    ranking = np.argsort(-choice_scores, axis=1, kind="stable")
    for token, slot in np.argwhere(ids == DROPPED):
        taken = {*chosen[token], *ids[token]}
        for expert in ranking[token]:
            if choice_scores[token, expert] == -np.inf:
                break
            if load[expert] < limit and expert not in taken:
                ids[token, slot] = expert
                load[expert] += 1
                break


def _number(value: float) -> str:
    """As short as reads back to the same value."""
    short = f"{value:g}"
    return short if float(short) == value else repr(float(value))


def _share(mask: NDArray[np.bool_]) -> float:
    return float(mask.mean()) if mask.size else 0.0
