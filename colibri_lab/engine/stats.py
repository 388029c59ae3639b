"""What the engine counts."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass
class EngineStats:
    """Counters since the engine was opened or `reset`; each [L, E], by MoE layer and expert.

    hits, misses : look-ups of the expert cache, one for each use of an expert by a micro-batch.
    evictions : times the expert gave up its slot.   loads : times it was read.
    bytes_read : int64, as stored in the file.
    calls : times it computed.   tokens : that it computed.
    load_s, compute_s, combine_s : float64 seconds of reading, computing, adding to the output.
    """

    hits: NDArray[np.int64]
    misses: NDArray[np.int64]
    evictions: NDArray[np.int64]
    loads: NDArray[np.int64]
    bytes_read: NDArray[np.int64]
    calls: NDArray[np.int64]
    tokens: NDArray[np.int64]
    load_s: NDArray[np.float64]
    compute_s: NDArray[np.float64]
    combine_s: NDArray[np.float64]

    @classmethod
    def zeros(cls, num_layers: int, num_experts: int) -> EngineStats:
        shape = (num_layers, num_experts)
        arrays: dict[str, Any] = {
            field.name: np.zeros(shape, np.float64 if field.name.endswith("_s") else np.int64)
            for field in fields(cls)
        }
        return cls(**arrays)

    def reset(self) -> None:
        """Count from zero again."""
        for field in fields(self):
            getattr(self, field.name)[...] = 0

    @property
    def miss_ratio(self) -> float:
        """Misses over look-ups, nan before the first."""
        lookups = int(self.hits.sum() + self.misses.sum())
        return float(self.misses.sum() / lookups) if lookups else float("nan")
