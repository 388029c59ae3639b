"""How large a cache is, and what else a replay is told."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from ..errors import InputError
from .calls import Batches


@dataclass(frozen=True)
class Budget:
    """Room for experts, all layers together.

    amount : bytes, or how many experts where `in_slots`.   per_layer : each layer has an even part
    to itself, rounded down; else whichever layer needs it takes it.
    """

    amount: int
    in_slots: bool = False
    per_layer: bool = False

    def __post_init__(self) -> None:
        given: Any = self.amount
        if not isinstance(given, Integral) or given < 1:
            raise InputError(
                "a budget must be positive",
                expected="a whole number, 1 byte or slot or more",
                found=given,
            )
        object.__setattr__(self, "amount", int(given))  # of NumPy's it would overflow

    @classmethod
    def of(cls, given: Budget | int) -> Budget:
        """A budget as it is; a number is bytes."""
        return given if isinstance(given, Budget) else cls(given)

    def weights(self, calls: Batches) -> list[int]:
        """[L * E] what each expert takes of the room."""
        return [1] * len(calls.key_bytes) if self.in_slots else calls.key_bytes.tolist()

    def rooms(self, calls: Batches) -> list[int]:
        """Of the one pool, or of each layer's; InputError where a layer is left with none."""
        if not self.per_layer:
            return [self.amount]
        share = self.amount // calls.num_layers
        if share < 1:
            raise InputError(
                "the budget leaves a layer nothing",
                expected=f"at least {calls.num_layers}, 1 a layer",
                found=self.amount,
            )
        return [share] * calls.num_layers


@dataclass(frozen=True)
class Rules:
    """What a replay is told beside its budget.

    pinned : keys that stay once they are in.   bypass : a batch's own experts may be evicted right
    after it.   predictor, depth : read so many guesses ahead of each decode call; "": none.
    """

    pinned: Set[int] = frozenset()
    bypass: bool = False
    predictor: str = ""
    depth: int = 0


DEMAND = Rules()


def check_rules(calls: Batches, budget: Budget, rules: Rules) -> None:
    """InputError where pins fill the room or are no keys, or nothing would be read ahead."""
    strangers = sorted(key for key in rules.pinned if not 0 <= key < len(calls.key_bytes))
    if strangers:
        raise InputError(
            "a pin is no expert",
            expected=f"keys of 0 to {len(calls.key_bytes) - 1}: layer * num_experts + expert",
            found=strangers[:5],
        )
    weights, rooms = budget.weights(calls), budget.rooms(calls)
    held = [0] * len(rooms)
    for key in rules.pinned:
        held[key // calls.num_experts if budget.per_layer else 0] += weights[key]
    if any(size >= room for size, room in zip(held, rooms, strict=True) if size):
        raise InputError(
            "pins fill the cache",
            expected=f"less than its room of {rooms[0]:,}",
            found=f"{max(held):,}",
            hint="pin fewer experts",
        )
    if rules.predictor and rules.depth < 1:
        raise InputError("depth must be positive", expected="1 or more", found=rules.depth)


def most_bytes(calls: Batches, budget: Budget, rules: Rules) -> int:
    """What may be held after an eviction: the room, or what the batch and the pins need beyond."""
    rooms = budget.rooms(calls)
    largest = int(calls.key_bytes.max()) if budget.in_slots else 1
    batch = 0 if rules.bypass else calls.largest_bytes
    pinned = sum(int(calls.key_bytes[key]) for key in rules.pinned)
    return sum(max(room * largest, batch + pinned) for room in rooms)
