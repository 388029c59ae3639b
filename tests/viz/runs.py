"""A small run of a small random model, for the tests of figures and reports."""

from __future__ import annotations

from pathlib import Path

from colibri_lab.experiments import Run, Sweep
from tests.support import write_checkpoint


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
