"""Progress, cancelling from another thread, Ctrl-C."""

from __future__ import annotations

import threading
import time

import pytest

from colibri_lab.errors import Interrupted
from colibri_lab.experiments import Progress, Run

from .helpers import MakeSweep


def test_progress_tells_cell_count_time_and_failures(make_sweep: MakeSweep) -> None:
    events: list[Progress] = []
    make_sweep(batch_size=[1, 2, 3]).run(progress=events.append)
    assert [event.stage for event in events] == ["prepare", *["cell", "finished"] * 3, "done"]
    finished = [event for event in events if event.stage == "finished"]
    assert [event.done for event in finished] == [1, 2, 3]
    assert finished[0].remaining_s is not None
    assert finished[-1].remaining_s == 0
    assert all("batch" in event.label for event in finished)
    assert all(event.record and event.record["status"] == "ok" for event in finished)


def test_a_thread_can_be_cancelled_within_half_a_second(make_sweep: MakeSweep) -> None:
    cancel, started, runs = threading.Event(), threading.Event(), []
    sweep = make_sweep(batch_size=[1, 2], repeats=1_000_000)

    def work() -> None:
        runs.append(sweep.run(progress=lambda _: started.set(), cancel=cancel))

    thread = threading.Thread(target=work)
    thread.start()
    assert started.wait(30)
    time.sleep(0.3)
    asked = time.monotonic()
    cancel.set()
    thread.join(30)
    assert time.monotonic() - asked < 0.5
    assert runs[0].manifest["status"] == "cancelled"
    assert runs[0].records == []


def test_a_cancelled_run_keeps_its_cells_and_goes_on(make_sweep: MakeSweep) -> None:
    cancel = threading.Event()

    def after_two(event: Progress) -> None:
        if event.stage == "finished" and event.done == 2:
            cancel.set()

    run = make_sweep(batch_size=[1, 2, 3]).run(progress=after_two, cancel=cancel)
    assert len(run.records) == 2
    again = make_sweep(batch_size=[1, 2, 3]).run()
    assert again.manifest["counts"] == {"cells": 3, "reused": 2, "ran": 1, "failed": 0}
    assert again.manifest["status"] == "done"


def test_ctrl_c_keeps_finished_cells(make_sweep: MakeSweep) -> None:
    def interrupt(event: Progress) -> None:
        if event.stage == "cell" and event.done == 1:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="1 of 3 cells") as caught:
        make_sweep(batch_size=[1, 2, 3]).run(progress=interrupt)
    run = Run.open(str(caught.value.path))
    assert run.manifest["status"] == "interrupted"
    assert len(run.records) == 1
    assert make_sweep(batch_size=[1, 2, 3]).run().manifest["counts"]["reused"] == 1
