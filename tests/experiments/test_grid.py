"""The grid: what it refuses, and which cells come of it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from colibri_lab import Capacity
from colibri_lab.config import MoEConfig
from colibri_lab.errors import InputError
from colibri_lab.experiments import Sweep
from colibri_lab.experiments.grid import AXES, Cell, make_grid
from colibri_lab.experiments.presets import PRESETS, preset

ONE: dict[str, Any] = {
    "backend": ["cpu"],
    "batch_size": [1],
    "seq_len": [1],
    "top_k": [2],
    "stream_count": [1],
    "capacity": ["none"],
    "expert_cache_slots": [4],
    "cache_policy": ["lru"],
}


@pytest.mark.parametrize(
    ("axis", "value", "named"),
    [
        ("batch_size", [], "batch_size has no values"),
        ("batch_size", [0], "batch_size"),
        ("batch_size", [-3], "-3"),
        ("batch_size", [1.5], "1.5"),
        ("batch_size", [True], "batch_size"),
        ("batch_size", ["4"], "batch_size"),
        ("batch_size", [4, 1, 4], "twice"),
        ("top_k", [9], "num_experts = 8"),
        ("top_k", [0], "top_k"),
        ("stream_count", [0], "stream_count"),
        ("seq_len", [0], "seq_len"),
        ("expert_cache_slots", [9], "num_experts = 8"),
        ("expert_cache_slots", [0], "expert_cache_slots"),
        ("backend", ["tpu"], "cpu, numpy"),
        ("cache_policy", ["magic"], "lru"),
        ("capacity", ["firm:1"], "hard:FACTOR"),
        ("capacity", ["hard:0"], "capacity_factor"),
        ("capacity", ["hard:1", Capacity.hard(1.0)], "twice"),
        ("colour", ["red"], "colour"),
    ],
)
def test_a_bad_axis_is_an_input_error_that_names_it(axis: str, value: Any, named: str) -> None:
    with pytest.raises(InputError) as caught:
        make_grid({**ONE, axis: value}, num_experts=8)
    assert named in str(caught.value)


def test_a_bad_grid_is_refused_before_anything_runs(
    make_sweep: Callable[..., Sweep], tmp_path: Any
) -> None:
    with pytest.raises(InputError, match="num_experts = 4"):
        make_sweep(top_k=[1, 5])
    assert not (tmp_path / "run").exists()


def test_the_full_cross_is_every_combination_once() -> None:
    grid = make_grid(
        {**ONE, "batch_size": [1, 2], "capacity": ["none", "hard:1"], "top_k": [1, 2, 4]}, 8
    )
    cells = grid.cells()
    assert {(cell.batch_size, cell.capacity, cell.top_k) for cell in cells} == set(
        itertools.product([1, 2], ["none", "hard:1"], [1, 2, 4])
    )
    assert len(cells) == 12
    assert grid.design == "full cross"


def test_crosses_leave_the_other_axes_at_the_base() -> None:
    grid = make_grid(
        {**ONE, "batch_size": [1, 2, 4], "capacity": ["none", "hard:1"], "top_k": [1, 2]},
        8,
        base={"batch_size": 2, "top_k": 2},
        crosses=[("batch_size",), ("capacity", "top_k")],
    )
    found = {(cell.batch_size, cell.capacity, cell.top_k) for cell in grid.cells()}
    alone = {(batch, "none", 2) for batch in (1, 2, 4)}
    crossed = {(2, *pair) for pair in itertools.product(["none", "hard:1"], [1, 2])}
    assert found == alone | crossed
    assert len(grid.cells()) == len(found)
    assert grid.design.startswith("around a base")


def test_what_a_backend_lacks_makes_no_second_cell() -> None:
    grid = make_grid(
        {**ONE, "backend": ["numpy"], "stream_count": [1, 2], "expert_cache_slots": [2, 4]}, 8
    )
    (cell,) = grid.cells()
    assert (cell.stream_count, cell.expert_cache_slots, cell.cache_policy) == (1, None, None)


def test_a_single_value_stands_for_a_list() -> None:
    grid = make_grid({**ONE, "batch_size": 4, "capacity": Capacity.soft(1.25)}, 8)
    (cell,) = grid.cells()
    assert (cell.batch_size, cell.capacity) == (4, "soft:1.25")


@pytest.mark.parametrize("wrong", [{"base": {"hue": 1}}, {"crosses": [("hue",)]}])
def test_a_design_of_unknown_axes_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="hue"):
        make_grid(ONE, 8, **wrong)


def test_the_manifest_s_grid_makes_the_same_grid_again() -> None:
    grid = make_grid({**ONE, "batch_size": [1, 2]}, 8, crosses=[("batch_size",)])
    kept = grid.as_dict()
    again = make_grid(kept["axes"], 8, kept["base"], kept["crosses"])
    assert again.cells() == grid.cells()


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("num_experts", [2, 16])
def test_presets_fit_any_model(name: str, num_experts: int) -> None:
    moe = MoEConfig(hidden_size=8, intermediate_size=8, num_experts=num_experts, top_k=2)
    chosen = preset(name, moe)
    axes = {**ONE, **{axis: chosen[axis] for axis in AXES if axis in chosen}}
    cells = make_grid(axes, num_experts, chosen.get("base"), chosen.get("crosses")).cells()
    assert max(cell.top_k for cell in cells) <= num_experts
    assert max(cell.expert_cache_slots or 0 for cell in cells) <= num_experts


def test_quick_varies_what_it_promises() -> None:
    moe = MoEConfig(hidden_size=8, intermediate_size=8, num_experts=16, top_k=2)
    chosen = preset("quick", moe)
    axes = {**ONE, **{axis: chosen[axis] for axis in AXES if axis in chosen}}
    cells = make_grid(axes, 16, chosen["base"], chosen["crosses"]).cells()

    def seen(axis: str) -> set[Any]:
        return {getattr(cell, axis) for cell in cells}

    assert seen("batch_size") == {1, 2, 4, 8, 16}
    assert seen("top_k") == {1, 2, 4}
    assert seen("stream_count") == {1, 2}
    assert seen("capacity") == {"none", "hard:1", "soft:1.25"}
    assert len(cells) < 80


def test_an_unknown_preset_lists_the_known_ones() -> None:
    moe = MoEConfig(hidden_size=8, intermediate_size=8, num_experts=4, top_k=2)
    with pytest.raises(InputError, match="quick, full"):
        preset("fast", moe)


def test_a_label_says_the_configuration() -> None:
    label = Cell(batch_size=4, top_k=1, stream_count=2, capacity="hard:1").label
    assert label == "cpu, batch 4 x 1, top-1, 2 streams, capacity hard:1, 4 slots lru"
