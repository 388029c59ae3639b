"""How often each expert was used: what counters keep, where the order of events is lost."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import TraceError
from ...reference.metrics import balancedness, entropy_bits
from .common import MAX_LAYERS, MAX_TABLE, Given, check_table, empty

MAX_COUNT = 2**53  # what a float64, as some counters use, still holds exactly


@dataclass(frozen=True)
class ExpertHistogram:
    """load : [L, E] int64, tokens that each expert took.   layers : [L] the engine's numbers."""

    load: NDArray[np.int64]
    layers: tuple[int, ...]
    source: str = ""

    def stats(self) -> dict[str, Any]:
        """Facts by name, those of `trace_stats` that need no order."""
        return {
            "source": self.source,
            "num_layers": self.load.shape[0],
            "num_experts": self.load.shape[1],
            "assignments": int(self.load.sum()),
            "entropy_bits": entropy_bits(self.load),
            "balancedness": balancedness(self.load),
            "distinct_share": (self.load > 0).mean(axis=1),
            "warnings": ["a histogram has no order: nothing can be replayed on it"],
        }


def from_counts(
    path: Path,
    counts: dict[tuple[int, int], int],
    given: Given,
    source: str,
    sizes: tuple[int, int] = (0, 0),
) -> ExpertHistogram:
    """Histogram of (layer, expert) -> count.

    sizes : layers and experts as the file says, 0 where it does not.
    Raises TraceError, naming the entry, for ids and counts out of range.
    """
    if not counts:
        raise empty(path)
    num_experts = sizes[1] or given.num_experts
    limits = (sizes[0] or MAX_LAYERS, num_experts or MAX_TABLE)
    for (layer, expert), count in counts.items():
        if not (0 <= layer < limits[0] and 0 <= expert < limits[1] and 0 <= count <= MAX_COUNT):
            raise TraceError(
                f"the count of layer {layer}, expert {expert} is out of range",
                path=path,
                expected=f"layer below {limits[0]}, expert below {limits[1]}, a count from 0",
                found=count,
            )
    layers = sorted({layer for layer, _ in counts})
    num_experts = num_experts or max(expert for _, expert in counts) + 1
    check_table(path, len(layers), num_experts)
    load = np.zeros((len(layers), num_experts), np.int64)
    row = {layer: index for index, layer in enumerate(layers)}
    for (layer, expert), count in counts.items():
        load[row[layer], expert] = count
    return ExpertHistogram(load, tuple(layers), source)


def no_sequence(path: Path) -> TraceError:
    return TraceError(
        "the file counts experts and does not say in what order they were used",
        path=path,
        expected="a trace, one entry for each token in each layer",
        found="a histogram",
        hint="colibri-lab trace stats shows it; record a trace to replay cache policies",
    )
