"""A small run of a small random model, for the tests of figures and reports."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

from colibri_lab.experiments import Run, Sweep
from colibri_lab.experiments.records import as_line
from tests.support import write_checkpoint

DEVICE = "A100 (emulated on the CPU)"
TIMES = ("latency_p50_ms", "latency_p90_ms", "latency_p99_ms", "tokens_per_s")


def make_run(folder: Path, **changes) -> Run:
    """Two values on each axis, random inputs."""
    write_checkpoint(folder / "model")
    options = {
        "batch_size": [1, 4],
        "top_k": [1, 2],
        "stream_count": [1, 2],
        "capacity": ["none", "hard:1.0"],
        "expert_cache_slots": [1, 4],
        "base": {"batch_size": 4, "top_k": 2, "expert_cache_slots": 1},
        "crosses": [
            ("batch_size", axis)
            for axis in ("top_k", "stream_count", "capacity", "expert_cache_slots")
        ],
        "repeats": 8,
        "inputs": "random",
    }
    sweep = Sweep(folder / "model", **{**options, **changes}, out=folder / "run")
    return sweep.run()


def with_emulated(run: Run, folder: Path, *, alone: bool = False) -> Run:
    """A copy of a run, each cell of it once more (or instead) as of an emulated device."""
    shutil.copytree(run.folder, folder)
    lines = []
    for number, record in enumerate(run.records):
        cell = f"emulated{number}"
        arrays = {name: values for name, values in run.samples(record["cell_id"]).items()
                  if name != "latency_ns"}  # fmt: skip
        np.savez(folder / "samples" / f"{cell}.npz", allow_pickle=False, **arrays)
        lines += [] if alone else [record]
        lines.append(record | dict.fromkeys(TIMES) | {
            "cell_id": cell, "backend": "cuda", "device": DEVICE, "emulated": True,
            "roofline_floor_ms": 0.00125, "device_bytes_moved": 3.0 * 2**20 * (1 + number),
            "device_dram_bytes": 1048577.0, "device_sectors_per_request": 2.25,
            "device_bank_conflicts": 7654.0,
        })  # fmt: skip
    text = "".join(as_line(record) + "\n" for record in lines)
    (folder / "records.jsonl").write_text(text, encoding="utf-8")
    return Run.open(folder)
