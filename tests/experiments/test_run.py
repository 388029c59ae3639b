"""Reading a run folder: table, samples, export, merging."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from colibri_lab.errors import InputError, RunError
from colibri_lab.experiments import Run, Sweep, merge_runs, session
from colibri_lab.experiments.records import COLUMNS


@pytest.fixture
def run(make_sweep: Callable[..., Sweep]) -> Run:
    return make_sweep(batch_size=[1, 2], backend=["cpu", "numpy"]).run()


def test_the_table_has_every_column_and_the_right_dtypes(run: Run) -> None:
    frame = Run.open(run.folder).frame
    assert {name: str(kind) for name, kind in frame.dtypes.items()} == COLUMNS
    assert len(frame) == 4
    assert frame["cell_id"].is_unique
    assert set(frame["run_id"]) == {run.manifest["run_id"]}
    assert frame["expert_cache_slots"].isna().sum() == 2


def test_csv_and_parquet_hold_the_same_table(run: Run, tmp_path: Path) -> None:
    frame = run.frame
    parquet = pd.read_parquet(run.export(tmp_path / "table.parquet"))
    pd.testing.assert_frame_equal(parquet, frame)
    csv = pd.read_csv(run.export(tmp_path / "table.csv"), dtype=COLUMNS)
    pd.testing.assert_frame_equal(csv, frame)


def test_an_unknown_export_is_refused(run: Run, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"\.csv or \.parquet"):
        run.export(tmp_path / "table.xls")
    with pytest.raises(RunError):
        run.export(tmp_path / "absent" / "table.csv")


def test_a_folder_without_a_run_says_so(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="there is no run here"):
        Run.open(tmp_path)
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(RunError, match="cannot be read"):
        Run.open(tmp_path)
    (tmp_path / "manifest.json").write_text("[]")
    with pytest.raises(RunError, match="a JSON object"):
        Run.open(tmp_path)


def test_another_schema_version_is_refused(run: Run) -> None:
    manifest = {**run.manifest, "schema_version": 0}
    (run.folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(RunError, match="another schema version"):
        Run.open(run.folder)


def test_an_unknown_cell_has_no_samples(run: Run) -> None:
    with pytest.raises(RunError, match="cell nothing"):
        run.samples("nothing")


def test_runs_of_one_host_merge(make_sweep: Callable[..., Sweep], tmp_path: Path) -> None:
    runs = [make_sweep(batch_size=n, out=tmp_path / str(n)).run() for n in (1, 2)]
    merged = merge_runs(runs)
    assert merged["batch_size"].tolist() == [1, 2]
    assert merged["run_id"].nunique() == 2
    assert {name: str(kind) for name, kind in merged.dtypes.items()} == COLUMNS


def test_runs_of_unlike_hosts_merge_only_when_asked(
    make_sweep: Callable[..., Sweep], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = make_sweep(batch_size=1).run()
    monkeypatch.setattr(session, "hardware_key", lambda environment: "elsewhere")
    there = make_sweep(batch_size=1, out=tmp_path / "there").run()
    with pytest.raises(RunError, match="different hosts"):
        merge_runs([here, there])
    assert len(merge_runs([here, there], unlike_hosts=True)) == 2
    with pytest.raises(InputError, match="no runs"):
        merge_runs([])
