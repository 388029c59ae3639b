"""Where the engine gets its weights from."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import numpy as np

from ..config import MoEConfig
from ..models import open_checkpoint
from ..reference import ExpertWeights
from ..reference.weights import Array


class ExpertStore(Protocol):
    """Routers and experts by layer; an expert is read anew at each call."""

    moe: MoEConfig
    num_layers: int

    def router(self, layer: int) -> Array:
        """[H, E] float64."""
        ...

    def read_expert(self, layer: int, expert: int) -> ExpertWeights:
        """float32 weights."""
        ...

    def expert_bytes(self, layer: int) -> int:
        """Bytes that reading an expert of this layer takes from its file."""
        ...

    def close(self) -> None: ...


class CheckpointStore:
    """The experts of a checkpoint folder, read from the mapped files."""

    def __init__(self, path: str | Path) -> None:
        self._checkpoint = open_checkpoint(path)
        self.moe = self._checkpoint.config.moe
        self.num_layers = self._checkpoint.config.num_layers

    def router(self, layer: int) -> Array:
        return self._checkpoint.router(layer, np.float64)

    def read_expert(self, layer: int, expert: int) -> ExpertWeights:
        return self._checkpoint.read_expert(layer, expert)

    def expert_bytes(self, layer: int) -> int:
        return self._checkpoint.expert_bytes(layer)

    def close(self) -> None:
        self._checkpoint.close()
