"""How the miss ratio falls with the budget, where the cliff is, and where a cache breaks even."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..reference.trace import RoutingTrace
from .budget import Budget
from .calls import Batches, batches
from .cost import Costs, token_times
from .replay import replay, run

ONE_PASS = ("lru", "lfu", "belady")  # one list holds their caches of all sizes
ONE_PASS_FROM = 100_000  # look-ups times budgets; for fewer, loading compiled code takes longer

Curve = NDArray[np.float64]


def miss_ratio_curves(
    calls: Batches, policies: Sequence[str], budgets_bytes: Sequence[int]
) -> dict[str, Curve]:
    """Policy -> [budgets] decode misses over look-ups; nan where the trace has no decode.

    Stack policies of equal experts take one pass for all budgets, where numba is installed.
    """
    if not budgets_bytes:
        raise InputError("a curve needs budgets", expected="one or more", found=0)
    policies = tuple(dict.fromkeys(policies))
    if not calls.equal_sizes:
        return _replayed(calls, policies, list(map(Budget, budgets_bytes)))
    size = int(calls.key_bytes[0])
    slots = [budget // size for budget in budgets_bytes]
    if min(slots) < 1:
        raise InputError(
            "a budget holds no expert", expected=f"{size:,} bytes or more", found=min(budgets_bytes)
        )
    return _curves(calls, policies, slots)


def layer_curves(calls: Batches, policy: str, slots: Sequence[int]) -> Curve:
    """[L, slots] decode misses over look-ups, each layer with a cache of so many experts of its
    own; nan where a layer has no decode."""
    layers = [calls.of_layer(layer) for layer in range(calls.num_layers)]
    nothing = np.full(len(slots), np.nan)
    return np.array(
        [_curves(own, [policy], slots)[policy] if len(own) else nothing for own in layers]
    )


def _curves(calls: Batches, policies: Sequence[str], slots: Sequence[int]) -> dict[str, Curve]:
    largest = int(np.diff(calls.starts).max())
    worth = len(calls.keys) * len(slots) >= ONE_PASS_FROM and find_spec("numba") is not None
    quick = [name for name in policies if name in ONE_PASS and worth and min(slots) >= largest]
    slow = [name for name in policies if name not in quick]
    found = {name: _one_pass(calls, name, slots) for name in quick}
    found |= _replayed(calls, slow, [Budget(count, in_slots=True) for count in slots])
    return {name: found[name] for name in policies}


def _one_pass(calls: Batches, policy: str, slots: Sequence[int]) -> Curve:
    from .stack import stack_hits

    lookups = int(np.diff(calls.starts)[calls.decode].sum())
    hits = stack_hits(calls, policy, decode_only=True)
    found = hits[np.minimum(slots, len(hits) - 1)]
    return 1.0 - found / lookups if lookups else np.full(len(slots), np.nan)


def _replayed(
    calls: Batches, policies: Sequence[str], budgets: Sequence[Budget]
) -> dict[str, Curve]:
    results = replay(calls, policies, budgets) if policies else []
    return {
        name: np.array([1.0 - each.decode_hit_ratio for each in results if each.policy == name])
        for name in policies
    }


def cliff_bytes(calls: Batches) -> int | None:
    """The least budget at which LRU hits at all in decode; None: never.

    Below it the cache is smaller than what comes back first: about one token's cycle over all
    layers. Found by halving, since LRU keeps with more room all that it keeps with less. What is
    held is always a sum of sizes, so a multiple of what divides them all is exact.
    """
    step = int(np.gcd.reduce(calls.key_bytes))
    rooms = _least(
        lambda rooms: run(calls, "lru", Budget(rooms * step)).hits[True] > 0,
        calls.used_bytes // step,
    )
    return None if rooms is None else rooms * step


@dataclass(frozen=True)
class BreakEven:
    """How many experts a cache must hold, all layers together; None where none is enough.

    cliff_slots : that LRU hits at all in decode.   break_even_slots : that a token waits for
    experts no longer than it computes.   used : experts that the trace uses at all.
    """

    top_k: int
    cliff_slots: int | None
    break_even_slots: int | None
    used: int


def break_even(trace: RoutingTrace, costs: Costs, top_ks: Sequence[int] = ()) -> list[BreakEven]:
    """For each top-k, as if the model had been run so: each token keeps its best experts.

    top_ks : all up to the trace's own where empty. A lower top-k would have changed what later
    layers see, so this is what the recorded routing says, not what the model would have done.
    """
    chosen = top_ks or range(1, trace.top_k + 1)
    return [_break_even(batches(trace.best(top_k)), costs, top_k) for top_k in chosen]


def _break_even(calls: Batches, costs: Costs, top_k: int) -> BreakEven:
    used = len(np.unique(calls.keys))

    def slots(count: int) -> Budget:
        return Budget(count, in_slots=True)

    def waits_no_longer(count: int) -> bool:
        times = token_times(calls, "lru", slots(count), costs)
        return bool(times.loading_s.mean() <= costs.layer_s * calls.num_layers)

    return BreakEven(
        top_k=top_k,
        cliff_slots=_least(lambda count: run(calls, "lru", slots(count)).hits[True] > 0, used),
        break_even_slots=_least(waits_no_longer, used),
        used=used,
    )


def _least(enough: Callable[[int], bool], most: int) -> int | None:
    """The least room that is enough, where more is never worse; None: not even most."""
    if not enough(most):
        return None
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        if enough(middle):
            high = middle
        else:
            low = middle
    return high
