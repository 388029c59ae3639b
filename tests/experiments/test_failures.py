"""What goes wrong: wrong results, errors in cells, disks and folders."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from colibri_lab.errors import RunError

from .helpers import MakeSweep, Wrapped, only, replace_backend


def test_a_wrong_result_fails_its_cell_and_gets_no_latency(
    make_sweep: MakeSweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Off(Wrapped):
        def get_output(self) -> Any:
            return self._inner.get_output() * 1.001

    replace_backend(monkeypatch, "cpu", Off)
    run = make_sweep(batch_size=[1], backend=["cpu", "numpy"]).run()
    by_backend = {record["backend"]: record for record in run.records}
    failed = by_backend["cpu"]
    assert failed["status"] == "failed"
    assert "differs from the reference" in failed["error"]
    assert failed["output_rel_error"] == pytest.approx(1e-3, rel=0.01)
    assert failed["latency_p50_ms"] is None
    assert failed["tokens_per_s"] is None
    assert by_backend["numpy"]["status"] == "ok"
    assert run.manifest["counts"] == {"cells": 2, "reused": 0, "ran": 2, "failed": 1}
    with pytest.raises(RunError, match="status is ok"):
        run.samples(failed["cell_id"])


@pytest.mark.parametrize("answer", [0.0, np.nan])
def test_zeros_and_nan_are_wrong_results(
    make_sweep: MakeSweep, monkeypatch: pytest.MonkeyPatch, answer: float
) -> None:
    class Constant(Wrapped):
        def get_output(self) -> Any:
            return np.full_like(self._inner.get_output(), answer)

    replace_backend(monkeypatch, "cpu", Constant)
    assert only(make_sweep(batch_size=1).run())["status"] == "failed"


def test_an_output_that_goes_wrong_while_timed_is_seen(
    make_sweep: MakeSweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stale(Wrapped):
        """Computes the warm-up calls, and nothing after them."""

        calls = 0

        def infer(self) -> None:
            self.calls += 1
            if self.calls <= 2:
                self._inner.infer()
                self.kept = self._inner.get_output().copy()

        def get_output(self) -> Any:
            return self.kept

    replace_backend(monkeypatch, "cpu", Stale)
    record = only(make_sweep(batch_size=1).run())
    assert record["status"] == "failed"
    assert record["latency_p50_ms"] is None


def test_an_error_in_a_cell_is_its_row(
    make_sweep: MakeSweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Breaking(Wrapped):
        def set_input(self, hidden_states: Any, lengths: Sequence[int]) -> None:
            if len(lengths) == 2:
                raise MemoryError("no room for two")
            self._inner.set_input(hidden_states, lengths)

    replace_backend(monkeypatch, "cpu", Breaking)
    run = make_sweep(batch_size=[1, 2, 3]).run()
    outcome = {record["batch_size"]: record["status"] for record in run.records}
    assert outcome == {1: "ok", 2: "failed", 3: "ok"}
    assert run.frame.set_index("batch_size")["error"][2] == "MemoryError: no room for two"


def test_a_full_disk_stops_the_sweep_and_takes_no_half_cell_for_done(
    make_sweep: MakeSweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        real = os.write

        def full(handle: int, data: bytes) -> int:
            if b'"cell_id"' in data and b'"batch_size": 2' in data:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(handle, data)

        patch.setattr(os, "write", full)
        with pytest.raises(RunError, match="the disk is full"):
            make_sweep(batch_size=[1, 2]).run()
    run = make_sweep(batch_size=[1, 2]).run()
    assert sorted(record["batch_size"] for record in run.history) == [1, 2]


def test_an_output_folder_that_cannot_be_is_a_run_error(
    make_sweep: MakeSweep, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="choose another output folder"):
        make_sweep(batch_size=1, out=tmp_path / "file" / "run").run()
