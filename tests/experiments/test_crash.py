"""A sweep in a process of its own: killed, interrupted, and doubled."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from colibri_lab.errors import RunError
from colibri_lab.experiments import Run, Sweep
from tests.support import write_checkpoint

CELLS = 12
SCRIPT = """
import sys
from colibri_lab.errors import Interrupted
from colibri_lab.experiments import Sweep

model, out, repeats = sys.argv[1:]
sweep = Sweep(
    model, batch_size=list(range(1, 7)), stream_count=[1, 2], expert_cache_slots=2,
    repeats=int(repeats), warmup=1, texts={name: list(range(64)) * 6 for name in "ab"}, out=out,
)
try:
    sweep.run(progress=lambda event: print(event.stage, event.done, flush=True))
except Interrupted:
    sys.exit(130)
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    write_checkpoint(tmp_path / "model")
    return tmp_path / "model"


def start(model: Path, out: Path, repeats: int = 150) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SCRIPT, str(model), str(out), str(repeats)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def wait_for(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdout is not None
    for found in process.stdout:
        if found.strip() == line:
            return
    pytest.fail(f"the sweep ended before {line!r}, status {process.wait()}")


def lines(out: Path) -> list[bytes]:
    return (out / "records.jsonl").read_bytes().splitlines()


def test_a_killed_sweep_goes_on_and_loses_and_doubles_nothing(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    for finished in (3, 7):
        with start(model, out) as process:
            wait_for(process, f"finished {finished}")
            assert Run.open(out).status == "running"
            os.kill(process.pid, signal.SIGKILL)
            assert process.wait() == -signal.SIGKILL
        assert Run.open(out).status == "killed"
        with (out / "records.jsonl").open("ab") as file:
            file.write(b'{"run_id": "torn')  # as if the kill had come while a line was written
    kept = [json.loads(line)["cell_id"] for line in lines(out)[:-1]]
    with start(model, out) as process:
        wait_for(process, f"done {CELLS}")
        assert process.wait() == 0
    run = Run.open(out)
    assert run.status == "done"
    counted = Counter(record["cell_id"] for record in run.history)
    assert len(counted) == CELLS
    assert set(counted.values()) == {1}
    assert [record["cell_id"] for record in run.history][: len(kept)] == kept
    assert run.manifest["counts"]["reused"] == len(kept) >= 7
    assert len(run.frame) == CELLS
    for cell_id in counted:
        assert len(run.samples(cell_id)["latency_ns"]) == 150


def test_ctrl_c_ends_with_status_130_and_can_be_resumed(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with start(model, out, 400) as process:
        wait_for(process, "finished 2")
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    assert Run.open(out).manifest["status"] == "interrupted"
    assert 2 <= len(lines(out)) < CELLS


def test_two_writers_do_not_share_a_folder(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with start(model, out, 100_000) as process:
        wait_for(process, "cell 0")
        time.sleep(0.1)
        sweep = Sweep(model, texts={"a": list(range(64)) * 6}, expert_cache_slots=2, out=out)
        with pytest.raises(RunError, match=f"process {process.pid}"):
            sweep.run()
        process.kill()
        process.wait()
