"""Resuming: what is reused, what is measured again, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from colibri_lab.errors import Interrupted, RunError
from colibri_lab.experiments import Progress, Run, Sweep, session
from colibri_lab.experiments.manifest import describe_texts
from tests.support import write_checkpoint

from .helpers import MakeSweep, only, replace_backend


def test_resuming_reuses_what_is_there(make_sweep: MakeSweep) -> None:
    first = make_sweep(batch_size=[1, 2]).run()
    before = {record["cell_id"]: record for record in first.records}
    events: list[Progress] = []
    again = make_sweep(batch_size=[1, 2, 3]).run(progress=events.append)
    assert events[-1].stage == "done"
    assert (events[-1].reused, events[-1].done, events[-1].total) == (2, 3, 3)
    assert again.manifest["counts"] == {"cells": 3, "reused": 2, "ran": 1, "failed": 0}
    assert before == {
        record["cell_id"]: record for record in again.records if record["cell_id"] in before
    }
    assert len(again.history) == 3
    assert len(again.manifest["sessions"]) == 2
    assert again.manifest["run_id"] == first.manifest["run_id"]


def test_a_failed_cell_is_tried_again(
    make_sweep: MakeSweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        replace_backend(patch, "cpu", lambda _: None)
        assert only(make_sweep(batch_size=1).run())["status"] == "failed"
    run = make_sweep(batch_size=1).run()
    assert only(run)["status"] == "ok"
    assert [record["status"] for record in run.history] == ["failed", "ok"]


def test_a_cell_without_its_samples_is_measured_again(make_sweep: MakeSweep) -> None:
    run = make_sweep(batch_size=1).run()
    (run.folder / "samples" / f"{only(run)['cell_id']}.npz").unlink()
    again = make_sweep(batch_size=1).run()
    assert again.manifest["counts"]["ran"] == 1
    again.samples(only(again)["cell_id"])


def test_other_code_measures_again_and_its_records_count(
    make_sweep: MakeSweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = only(make_sweep(batch_size=1).run())
    monkeypatch.setattr(session, "code_version", lambda: "other")
    monkeypatch.setattr("colibri_lab.experiments.manifest.code_version", lambda: "other")
    run = make_sweep(batch_size=1).run()
    assert only(run)["cell_id"] != old["cell_id"]
    assert len(run.history) == 2


def test_other_repeats_measure_again_and_are_not_shown_twice(make_sweep: MakeSweep) -> None:
    make_sweep(batch_size=1, repeats=3).run()
    run = make_sweep(batch_size=1, repeats=4).run()
    assert only(run)["repeats"] == 4
    assert [record["repeats"] for record in run.history] == [3, 4]


def test_another_tolerance_is_not_another_cell(make_sweep: MakeSweep) -> None:
    error = only(make_sweep(batch_size=1, tolerance=1e-3).run())["output_rel_error"]
    assert error > 0
    run = make_sweep(batch_size=1, tolerance=1e-4).run()  # within it too: nothing to measure
    assert (len(run.history), only(run)["status"]) == (1, "ok")
    sweep = make_sweep(batch_size=1, tolerance=error / 2)
    assert sweep.plan().reused == 0
    run = sweep.run()
    assert (len(run.history), only(run)["status"]) == (2, "failed")
    run = make_sweep(batch_size=1, tolerance=1e-3).run()
    assert (len(run.history), only(run)["status"]) == (3, "ok")


def test_a_cell_that_a_tighter_tolerance_leaves_out_is_not_shown(make_sweep: MakeSweep) -> None:
    loose = make_sweep(batch_size=[1, 2], tolerance=1e-3).run()
    sweep = make_sweep(batch_size=2, tolerance=min(loose.frame["output_rel_error"]) / 2)
    (record,) = sweep.run().records  # that of batch size 1 was not judged by the new one
    assert (record["batch_size"], record["status"]) == (2, "failed")


def test_a_run_is_resumed_from_its_folder_alone(make_sweep: MakeSweep, texts: Any) -> None:
    first = make_sweep(batch_size=[1, 2], crosses=[("batch_size",)]).run()
    again = Sweep.of_run(first.folder, texts=texts)
    assert again.grid.cells() == make_sweep().grid.cells()
    assert again.run().manifest["counts"] == {"cells": 2, "reused": 2, "ran": 0, "failed": 0}


def test_resume_may_be_refused(make_sweep: MakeSweep) -> None:
    make_sweep(batch_size=1).run()
    with pytest.raises(RunError, match="a run in this folder already"):
        make_sweep(batch_size=1).run(resume=False)


def test_a_run_of_another_model_is_refused(make_sweep: MakeSweep, tmp_path: Path) -> None:
    first = make_sweep(batch_size=1).run()
    write_checkpoint(tmp_path / "other", seed=9)
    with pytest.raises(RunError, match="another model") as caught:
        make_sweep(batch_size=1, model=tmp_path / "other").run()
    assert caught.value.found == first.manifest["model_fingerprint"]
    assert caught.value.hint
    assert len(first.history) == 1


def test_a_run_of_another_schema_host_or_input_is_refused(
    make_sweep: MakeSweep, monkeypatch: pytest.MonkeyPatch, texts: Any
) -> None:
    run = make_sweep(batch_size=1).run()
    with pytest.raises(RunError, match="another inputs"):
        make_sweep(batch_size=1, texts={**texts, "one": texts["two"]}).run()
    with monkeypatch.context() as patch:
        patch.setattr(session, "hardware_key", lambda environment: "elsewhere")
        with pytest.raises(RunError, match="another host"):
            make_sweep(batch_size=1).run()
    path = run.folder / "manifest.json"
    path.write_text(json.dumps({**run.manifest, "schema_version": 99}))
    with pytest.raises(RunError, match="another schema version"):
        make_sweep(batch_size=1).run()


def test_a_run_that_ended_while_it_captured_inputs_is_resumed(
    make_sweep: MakeSweep, monkeypatch: pytest.MonkeyPatch, texts: Any
) -> None:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(session, "capture", stop)
        with pytest.raises(Interrupted):
            make_sweep(batch_size=1).run()
    folder = make_sweep().out
    assert "inputs" not in Run.open(folder).manifest
    assert Sweep.of_run(folder, texts=texts).run().manifest["counts"]["ran"] == 1


def test_a_run_is_resumed_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "heldout").mkdir()
    monkeypatch.chdir(tmp_path)
    assert describe_texts("heldout") == str(tmp_path / "heldout")
    assert describe_texts([Path("heldout")]) == [str(tmp_path / "heldout")]


def test_a_cell_with_damaged_samples_is_measured_again(make_sweep: MakeSweep) -> None:
    run = make_sweep(batch_size=1).run()
    path = run.folder / "samples" / f"{only(run)['cell_id']}.npz"
    path.write_bytes(path.read_bytes()[:100])
    again = make_sweep(batch_size=1).run()
    assert again.manifest["counts"]["ran"] == 1
    assert len(again.samples(only(again)["cell_id"])["latency_ns"]) == 4


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("grid", None),
        ("grid", {"axes": 5}),
        ("model", "x"),
        ("settings", {}),
        ("code_version", 1),
        ("environment", {"packages": []}),
    ],
)
def test_an_edited_manifest_is_named(make_sweep: MakeSweep, key: str, value: Any) -> None:
    run = make_sweep(batch_size=1).run()
    (run.folder / "manifest.json").write_text(json.dumps({**run.manifest, key: value}))
    with pytest.raises(RunError, match=f"manifest's \"{key}") as caught:
        Run.open(run.folder)
    assert caught.value.path == str(run.folder / "manifest.json")


def test_stored_inputs_that_lack_an_array_are_named(make_sweep: MakeSweep) -> None:
    run = make_sweep(batch_size=1).run()
    np.savez(run.folder / "inputs.npz", kind=np.array("text"))
    with pytest.raises(RunError, match="incomplete") as caught:
        make_sweep(batch_size=[1, 2]).run()
    assert "hidden_states" in str(caught.value.expected)
