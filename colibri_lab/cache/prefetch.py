"""Guessing the next layer's experts, and what the guesses are worth.

Accuracy alone misleads: a guess that was right and came too late, or that pushed out what was
needed, costs as much as a wrong one. So bytes and time are counted with it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ..errors import InputError
from .cost import Tier
from .replay import Batches


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


PREDICTORS: dict[str, Callable[[], Predictor]] = {
    "frequency": Frequency,
    "last-token": LastToken,
    "markov": Markov,
}


@dataclass(frozen=True)
class PrefetchResult:
    """What a predictor did over the decode calls, with `depth` guesses a layer at most.

    accuracy : guesses that the layer used.   recall : of the experts used, those guessed.
    useful_bytes, wasted_bytes : of guesses right and wrong.
    in_time : of the right guesses, those that `lead_s` was long enough to read.
    """

    predictor: str
    depth: int
    accuracy: float
    recall: float
    useful_bytes: int
    wasted_bytes: int
    in_time: float


def score_prefetch(
    calls: Batches, name: str, depth: int, tier: Tier, lead_s: float
) -> PrefetchResult:
    """Guess each decode layer call before it comes, then learn from it.

    lead_s : seconds between the guess and the need: one layer's time, as a rule.
    Guesses are read in order; what does not fit into lead_s is late. Every guess is read: none is
    in memory already, which makes useful and wasted bytes upper bounds.
    """
    if name not in PREDICTORS:
        raise InputError(
            "predictor is not known", expected=f"one of {', '.join(PREDICTORS)}", found=name
        )
    if depth < 1:
        raise InputError("depth must be positive", expected="1 or more", found=depth)
    predictor = PREDICTORS[name]()
    guessed = right = needed = useful = wasted = in_time = 0
    before: list[int] = []
    for keys, decode in calls.groups():
        layer, used = keys[0] // calls.num_experts, [key % calls.num_experts for key in keys]
        if layer == 0:
            before = []
        if decode:
            size = int(calls.key_bytes[keys[0]])
            guesses = predictor.predict(layer, before)[:depth]
            hits = [place for place, expert in enumerate(guesses) if expert in used]
            guessed, right, needed = guessed + len(guesses), right + len(hits), needed + len(used)
            useful += len(hits) * size
            wasted += (len(guesses) - len(hits)) * size
            in_time += sum(tier.read_s([size] * (place + 1)) <= lead_s for place in hits)
        predictor.learn(layer, before, used)
        before = used
    return PrefetchResult(
        predictor=name,
        depth=depth,
        accuracy=_share(right, guessed),
        recall=_share(right, needed),
        useful_bytes=useful,
        wasted_bytes=wasted,
        in_time=_share(in_time, right),
    )


def _share(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")
