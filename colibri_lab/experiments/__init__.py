"""Sweeps over a model's MoE layers, and the folders that keep their results."""

from .progress import Progress
from .replays import replay
from .run import Run, merge_runs
from .sweep import Sweep

__all__ = ["Progress", "Run", "Sweep", "merge_runs", "replay"]
