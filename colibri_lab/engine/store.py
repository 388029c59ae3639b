"""Where the engine gets its weights from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from ..config import MoEConfig
from ..models import Checkpoint, open_checkpoint
from ..models.containers import (
    CheckpointExperts,
    ContainerExperts,
    ExpertSource,
    experts_for,
    open_container,
)
from ..reference import ExpertWeights
from ..reference.weights import Array


@dataclass(frozen=True)
class Router:
    """weight : [H, E] float64;  bias, correction : [E] or None."""

    weight: Array
    bias: Array | None = None
    correction: Array | None = None


class ExpertStore(Protocol):
    """Routers and experts by MoE layer; an expert is read anew at each call."""

    moe: MoEConfig
    num_layers: int

    def router(self, layer: int) -> Router: ...

    def read_expert(self, layer: int, expert: int) -> ExpertWeights: ...

    def expert_bytes(self, layer: int) -> int:
        """Bytes that reading an expert of this layer takes from its file."""
        ...

    def close(self) -> None: ...


class CheckpointStore:
    """Routers of a checkpoint folder; experts of the folder, or of a container made from it."""

    def __init__(self, checkpoint: Checkpoint, experts: ExpertSource) -> None:
        self._checkpoint, self._experts = checkpoint, experts
        self.moe = checkpoint.config.moe
        self.num_layers = checkpoint.config.num_moe_layers

    def router(self, layer: int) -> Router:
        weight, bias, correction = self._checkpoint.router(layer, np.float64)
        return Router(np.ascontiguousarray(weight.T), bias, correction)

    def read_expert(self, layer: int, expert: int) -> ExpertWeights:
        return self._experts.expert(layer, expert)

    def expert_bytes(self, layer: int) -> int:
        return self._experts.expert_bytes(layer)

    def close(self) -> None:
        self._experts.close()
        self._checkpoint.close()


class ContainerStore:
    """A container alone: its own routers, and the routing rule that it cannot name.

    Containers hold no rule; softmax over all experts, the K best, renormalised (Mixtral) is taken.
    """

    def __init__(self, experts: ContainerExperts) -> None:
        self._experts = experts
        sizes = experts.sizes
        self.num_layers = sizes.num_layers
        self.moe = MoEConfig(
            sizes.hidden_size, sizes.intermediate_size, sizes.num_experts, sizes.top_k
        )

    def router(self, layer: int) -> Router:
        weight = self._experts.router(layer).astype(np.float64)
        return Router(weight, self._experts.router_bias(layer))

    def read_expert(self, layer: int, expert: int) -> ExpertWeights:
        return self._experts.expert(layer, expert)

    def expert_bytes(self, layer: int) -> int:
        return self._experts.expert_bytes(layer)

    def close(self) -> None:
        self._experts.close()


def open_store(path: str | Path, experts: str | Path | None) -> ExpertStore:
    """A checkpoint folder, with its own experts or those of a container; or a container alone."""
    path = Path(path)
    if path.is_file() and experts is None:
        return ContainerStore(ContainerExperts(open_container(path)))
    checkpoint = open_checkpoint(path)
    try:
        source: ExpertSource = (
            CheckpointExperts(checkpoint) if experts is None else experts_for(checkpoint, experts)
        )
    except BaseException:
        checkpoint.close()
        raise
    return CheckpointStore(checkpoint, source)
