"""The sample model: the effects that a sweep is there to show."""

from __future__ import annotations

from pathlib import Path

import pytest

from colibri_lab.experiments import Run, Sweep


@pytest.fixture(scope="module")
def run(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    model = repository / "data" / "tiny-moe"
    sweep = Sweep(
        model,
        batch_size=[1, 8],
        top_k=[1, 2],
        capacity=["none", "hard:1.0"],
        expert_cache_slots=[4, 16],
        base={"batch_size": 8, "top_k": 2},
        crosses=[("batch_size", "expert_cache_slots"), ("top_k",), ("capacity",)],
        repeats=40,
        out=tmp_path_factory.mktemp("sample") / "run",
    )
    return sweep.run()


def test_every_cell_is_right(run: Run) -> None:
    frame = run.frame
    assert len(frame) == 6
    assert frame["error"].isna().all()
    assert (frame["output_rel_error"] < 1e-5).all()
    assert (frame["latency_p50_ms"] > 0).all()


def test_inputs_are_the_model_s_reading_of_every_domain(run: Run) -> None:
    assert len(set(run.manifest["inputs"]["domains"])) >= 5


def test_capacity_and_a_smaller_top_k_cost_perplexity(run: Run) -> None:
    frame = run.frame
    whole = frame[(frame.top_k == 2) & (frame.capacity == "none")]["perplexity"].iloc[0]
    limited = frame[frame.capacity == "hard:1"].iloc[0]
    assert limited["perplexity"] > 1.1 * whole
    assert limited["dropped_fraction"] > 0.05
    assert limited["capacity_rel_error"] > 0.05
    assert frame[frame.top_k == 1]["perplexity"].iloc[0] > 1.02 * whole


def test_room_and_locality_save_misses(run: Run) -> None:
    frame = run.frame.query("top_k == 2 and capacity == 'none'")
    ratio = frame.set_index(["batch_size", "expert_cache_slots"])["expert_miss_ratio"]
    # Independent choices of 2 of 16 experts would find 4 slots of 16 full with 1 in 4.
    assert ratio[1, 4] < 0.7
    assert ratio[1, 16] < ratio[1, 4] < ratio[8, 4]


def test_a_time_under_its_floor_is_warned_of(run: Run) -> None:
    frame = run.frame
    assert (frame["roofline_floor_ms"] > 0).all()
    assert (frame["bytes_moved"] > 0).all()
    warned = frame["warning"].notna()
    assert (warned == (frame["latency_p50_ms"] < frame["roofline_floor_ms"])).all()
    assert len(run.manifest.get("warnings", [])) == warned.sum()
