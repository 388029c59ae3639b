"""Guessing the next layer's experts before its router has spoken."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Protocol

from ..errors import InputError
from .calls import Batches

LOOK_AHEAD = "look-ahead"


class Predictor(Protocol):
    """Ranks the experts of a layer before its router has spoken."""

    def predict(self, layer: int, before: list[int]) -> list[int]:
        """Experts, the likeliest first.   before : what the layer before used, this token."""
        ...

    def learn(self, layer: int, before: list[int], used: list[int]) -> None:
        """What the layer used in the end."""
        ...


class Frequency:
    """The layer's most used experts so far."""

    def __init__(self) -> None:
        self._uses: dict[int, Counter[int]] = {}

    def predict(self, layer: int, before: list[int]) -> list[int]:  # noqa: ARG002 - as its kind
        return [expert for expert, _ in self._uses.get(layer, Counter()).most_common()]

    def learn(self, layer: int, before: list[int], used: list[int]) -> None:  # noqa: ARG002
        self._uses.setdefault(layer, Counter()).update(used)


class LastToken:
    """What the token before used in this layer, then its token before, and so on."""

    def __init__(self, memory: int = 8) -> None:
        self._memory = memory
        self._used: dict[int, deque[list[int]]] = {}

    def predict(self, layer: int, before: list[int]) -> list[int]:  # noqa: ARG002 - as its kind
        ordered = dict.fromkeys(expert for used in self._used.get(layer, ()) for expert in used)
        return list(ordered)

    def learn(self, layer: int, before: list[int], used: list[int]) -> None:  # noqa: ARG002
        self._used.setdefault(layer, deque(maxlen=self._memory)).appendleft(used)


class Markov:
    """Experts that followed the ones that the layer before has just used, by how often."""

    def __init__(self) -> None:
        self._followers: dict[tuple[int, int], Counter[int]] = {}

    def predict(self, layer: int, before: list[int]) -> list[int]:
        votes: Counter[int] = Counter()
        for expert in before:
            votes.update(self._followers.get((layer, expert), Counter()))
        return [expert for expert, _ in votes.most_common()]

    def learn(self, layer: int, before: list[int], used: list[int]) -> None:
        for expert in before:
            self._followers.setdefault((layer, expert), Counter()).update(used)


class LookAhead:
    """What the recorded router named one layer early, call after call."""

    def __init__(self, guesses: Sequence[list[int]]) -> None:
        self._guesses, self._call = guesses, 0

    def predict(self, layer: int, before: list[int]) -> list[int]:  # noqa: ARG002 - as its kind
        return self._guesses[self._call]

    def learn(self, layer: int, before: list[int], used: list[int]) -> None:  # noqa: ARG002
        self._call += 1


PREDICTORS: dict[str, Callable[[], Predictor]] = {
    "frequency": Frequency,
    "last-token": LastToken,
    "markov": Markov,
}


def known_predictors(calls: Batches) -> list[str]:
    """Names of those that can guess these calls."""
    return [*PREDICTORS, *([] if calls.guesses is None else [LOOK_AHEAD])]


def make_predictor(name: str, calls: Batches) -> Predictor:
    """A fresh predictor by name; InputError lists the known ones."""
    if name == LOOK_AHEAD and calls.guesses is not None:
        experts = [[key % calls.num_experts for key in keys] for keys in calls.guesses]
        return LookAhead(experts)
    if name not in PREDICTORS:
        raise InputError(
            "predictor is not known",
            expected=f"one of {', '.join(known_predictors(calls))}",
            found=name,
            hint="the trace has no look-ahead" if name == LOOK_AHEAD else None,
        )
    return PREDICTORS[name]()
