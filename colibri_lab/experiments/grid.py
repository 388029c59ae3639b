"""The grid of a sweep: its axes, its design, and the cells that come of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from ..cache import POLICIES
from ..capacity import Capacity
from ..config import check_top_k
from ..errors import InputError
from .backends import BACKENDS


@dataclass(frozen=True)
class Cell:
    """One configuration; the field names are the axes.

    seq_len : tokens a sequence gives to a call; 1 is a decode step.
    capacity : as ``str(Capacity)`` writes it.
    expert_cache_slots : resident experts a layer; None (as cache_policy) where a backend has none.
    """

    backend: str = "cpu"
    batch_size: int = 1
    seq_len: int = 1
    top_k: int = 2
    stream_count: int = 1
    capacity: str = "none"
    expert_cache_slots: int | None = 4
    cache_policy: str | None = "lru"

    @property
    def num_tokens(self) -> int:
        """Tokens in one call, T."""
        return self.batch_size * self.seq_len

    @property
    def label(self) -> str:
        """The configuration in words, for progress and errors."""
        streams = f"{self.stream_count} stream{'s' if self.stream_count > 1 else ''}"
        words = [
            f"{self.backend}, batch {self.batch_size} x {self.seq_len}",
            f"top-{self.top_k}",
            streams,
            f"capacity {self.capacity}",
        ]
        if self.expert_cache_slots is not None:
            words.append(f"{self.expert_cache_slots} slots {self.cache_policy}")
        return ", ".join(words)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


AXES = tuple(field.name for field in fields(Cell))


@dataclass(frozen=True)
class Grid:
    """Axes and design.

    axes : each axis with its values.   base : the value of an axis where a cross leaves it alone.
    crosses : groups of axes; each group is crossed in full around the base, and the cells are the
        union. One group of every axis is the full cross product.
    """

    axes: Mapping[str, tuple[Any, ...]]
    base: Mapping[str, Any]
    crosses: tuple[tuple[str, ...], ...]

    @property
    def design(self) -> str:
        """The design in words."""
        varied = {name for name, values in self.axes.items() if len(values) > 1}
        if any(varied <= set(group) for group in self.crosses):
            return "full cross"
        return "around a base: " + ", ".join(" x ".join(group) for group in self.crosses)

    def cells(self) -> list[Cell]:
        """Every cell once, in a fixed order."""
        found: dict[Cell, None] = {}
        for group in self.crosses:
            for values in itertools.product(*(self.axes[name] for name in group)):
                chosen = {**self.base, **dict(zip(group, values, strict=True))}
                found.setdefault(_applicable(Cell(**chosen)))
        return list(found)

    def as_dict(self) -> dict[str, Any]:
        """What the manifest keeps, and `make_grid` reads."""
        return {
            "axes": {name: list(values) for name, values in self.axes.items()},
            "base": dict(self.base),
            "crosses": [list(group) for group in self.crosses],
            "design": self.design,
            "num_cells": len(self.cells()),
        }


def make_grid(
    axes: Mapping[str, Any],
    num_experts: int,
    base: Mapping[str, Any] | None = None,
    crosses: Sequence[Sequence[str]] | None = None,
) -> Grid:
    """Check axes and design against the model; InputError before anything runs.

    axes : axis -> a value or several.   base : the first value of each axis where not given.
    crosses : None is the full cross product of the axes.
    """
    unknown = [name for name in (*axes, *(base or ())) if name not in AXES]
    if unknown:
        raise _axis_error("the grid has an axis that is not known", AXES, unknown[0])
    checked = {name: _values(name, axes[name], num_experts) for name in AXES}
    start = {name: values[0] for name, values in checked.items()}
    for name, value in (base or {}).items():
        start[name] = _value(name, value, num_experts)
    groups = tuple(tuple(group) for group in crosses or [AXES])
    for name in itertools.chain.from_iterable(groups):
        if name not in AXES:
            raise _axis_error("a cross names an axis that is not known", AXES, name)
    return Grid(checked, start, groups)


def _values(name: str, given: Any, num_experts: int) -> tuple[Any, ...]:
    single = isinstance(given, str | Capacity) or not isinstance(given, Iterable)
    values = [_value(name, item, num_experts) for item in ([given] if single else given)]
    if not values:
        raise InputError(
            f"{name} has no values", expected="one value or more", found="an empty list"
        )
    repeated = [value for value in values if values.count(value) > 1]
    if repeated:
        raise InputError(
            f"{name} has a value twice",
            expected="each value once",
            found=repeated[0],
            hint="a cell is measured once a run; for more samples raise repeats",
        )
    return tuple(values)


def _value(name: str, value: Any, num_experts: int) -> Any:
    if name == "capacity":
        return str(value if isinstance(value, Capacity) else Capacity.parse(value))
    if name == "backend":
        return _one_of("backend", value, BACKENDS)
    if name == "cache_policy":
        return _one_of("cache_policy", value, POLICIES)
    number = _positive(name, value)
    if name == "top_k":
        return check_top_k(number, num_experts)
    if name == "expert_cache_slots" and number > num_experts:
        raise InputError(
            "expert_cache_slots is more than the layer has experts",
            expected=f"1 to num_experts = {num_experts}",
            found=number,
        )
    return number


def _positive(name: str, value: Any) -> int:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < 1:
        raise InputError(
            f"{name} must be a positive whole number", expected="1 or more", found=repr(value)
        )
    return int(value)


def _one_of(name: str, value: Any, known: Iterable[str]) -> str:
    if value not in known:
        raise _axis_error(f"{name} is not known", known, value)
    return str(value)


def _axis_error(message: str, known: Iterable[str], found: Any) -> InputError:
    return InputError(message, expected=f"one of {', '.join(known)}", found=repr(found))


def _applicable(cell: Cell) -> Cell:
    """The cell without what its backend does not have, so that nothing is measured twice."""
    if BACKENDS[cell.backend].has_expert_cache:
        return cell
    return Cell(
        **{
            **cell.as_dict(),
            "stream_count": 1,
            "expert_cache_slots": None,
            "cache_policy": None,
        }
    )
