"""What reading ahead is worth: right guesses in time against wrong ones.

Accuracy alone misleads: a guess that was right and came too late, or that pushed out what was
needed, costs as much as a wrong one. So bytes and time are counted with it.
"""

from __future__ import annotations

from dataclasses import dataclass

from .budget import Budget, Rules, check_rules
from .calls import Batches
from .cost import Costs
from .replay import steps_of


@dataclass(frozen=True)
class PrefetchResult:
    """What a predictor did over the decode calls, with `depth` guesses a layer at most.

    accuracy : guesses that the layer used.   recall : of the experts used, those guessed.
    useful_bytes, wasted_bytes : of what was read ahead, used before it was evicted, or not.
    in_time : of what was read ahead for a layer and used by it, the share that one layer's time
    was long enough to read.   nan where there is nothing to take a share of.
    """

    predictor: str
    depth: int
    accuracy: float
    recall: float
    useful_bytes: int
    wasted_bytes: int
    in_time: float


def score_prefetch(
    calls: Batches, predictor: str, depth: int, budget: Budget | int, costs: Costs, policy: str
) -> PrefetchResult:
    """Guess each decode layer call before it comes, read what is not in memory, and learn from it.

    depth : guesses a layer.   budget, policy : of the cache that holds what is read.
    """
    room, rules = Budget.of(budget), Rules(predictor=predictor or "none", depth=depth)
    check_rules(calls, room, rules)
    sizes = calls.key_bytes.tolist()
    guessed = right = needed = read = useful = hits = in_time = 0
    for step in steps_of(calls, policy, room, rules):
        if step.decode:
            guessed += len(step.guessed)
            right += len(set(step.guessed) & set(step.used))
            needed += len(step.used)
        read += sum(sizes[key] for key in step.read_ahead)
        useful += sum(sizes[key] for key in step.found_ahead)
        for place, key in enumerate(step.read_ahead):
            if key in step.found_ahead:
                done_s = costs.tier.read_s([sizes[k] for k in step.read_ahead[: place + 1]])
                hits += 1
                in_time += done_s <= costs.layer_s
    return PrefetchResult(
        predictor=predictor,
        depth=depth,
        accuracy=_share(right, guessed),
        recall=_share(right, needed),
        useful_bytes=useful,
        wasted_bytes=read - useful,
        in_time=_share(in_time, hits),
    )


def _share(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")
