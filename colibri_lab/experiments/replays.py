"""Replays as a table: the front door to the expert-cache lab."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from ..cache import Budget, Rules, batches
from ..cache import replay as replay_policies
from ..errors import InputError
from ..reference import RoutingTrace

if TYPE_CHECKING:
    import pandas as pd


def replay(
    trace: RoutingTrace,
    policies: Sequence[str] = ("lru", "belady"),
    *,
    budget_bytes: Sequence[int] = (),
    slots: Sequence[int] = (),
    per_layer: bool = False,
    per_token: bool = False,
    rules: Rules | None = None,
) -> pd.DataFrame:
    """Replay a routing trace: a row for each policy and budget, columns as `cache.Replay` has them.

    policies : names in `cache.POLICIES`, or ``belady`` for the exact optimum.
    budget_bytes, slots : of the expert cache, all layers together; one of them, or both.
    per_layer : each layer has an even part to itself.   per_token : each token asks for its own
    experts.   rules : pins, bypass, reading ahead.
    Raises InputError for an unknown policy or no budget, TraceError for a trace without sizes.
    """
    import pandas as pd

    _check_lists(policies=policies, budget_bytes=budget_bytes, slots=slots)
    budgets = [Budget(amount, per_layer=per_layer) for amount in budget_bytes]
    budgets += [Budget(amount, in_slots=True, per_layer=per_layer) for amount in slots]
    if not budgets or not len(policies):
        raise InputError(
            "a replay needs policies and budgets",
            expected='policies=["lru"], and budget_bytes=[...] or slots=[...]',
            found=f"{len(policies)} policies, {len(budgets)} budgets",
        )
    calls = batches(trace, per_token=per_token)
    return pd.DataFrame(map(asdict, replay_policies(calls, policies, budgets, rules or Rules())))


def _check_lists(**given: object) -> None:
    for name, value in given.items():
        if isinstance(value, str) or not isinstance(value, Iterable):
            raise InputError(f"{name} must be a list", expected=f"{name}=[...]", found=repr(value))
