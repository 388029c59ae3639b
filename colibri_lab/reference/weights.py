"""The weights that the reference computes with, as plain arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from ..errors import ShapeError

Array = NDArray[Any]


@dataclass(frozen=True)
class ExpertWeights:
    """One SwiGLU expert: ``down( silu(gate x) * (up x) )``.

    gate, up : [I, H] float.
    down : [H, I] float.
    """

    gate: Array
    up: Array
    down: Array

    def __post_init__(self) -> None:
        intermediate_size, hidden_size = self.gate.shape
        wanted = {"up": self.gate.shape, "down": (hidden_size, intermediate_size)}
        for name, shape in wanted.items():
            found = getattr(self, name).shape
            if found != shape:
                raise ShapeError(
                    f"expert weight {name} has a wrong shape", expected=shape, found=found
                )

    @property
    def num_bytes(self) -> int:
        """Bytes of the three matrices as stored here."""
        return int(self.gate.nbytes + self.up.nbytes + self.down.nbytes)


@dataclass(frozen=True)
class MoELayerWeights:
    """The router and the experts of one MoE layer.

    router : [H, E] float (a checkpoint's gate weight, transposed).
    experts : E items; a list, or a lazy sequence that reads an expert when it is indexed.
    """

    router: Array
    experts: Sequence[ExpertWeights]

    def __post_init__(self) -> None:
        if self.router.ndim != 2 or self.router.shape[1] != len(self.experts):
            raise ShapeError(
                "router must have one column an expert",
                expected=f"[H, {len(self.experts)}]",
                found=list(self.router.shape),
            )

    @property
    def num_experts(self) -> int:
        return len(self.experts)


@dataclass(frozen=True)
class AttentionWeights:
    """Grouped-query attention; each matrix is [out, in], as checkpoints store it.

    q : [num_heads * head_dim, H];  k, v : [num_kv_heads * head_dim, H];
    o : [H, num_heads * head_dim].
    """

    q: Array
    k: Array
    v: Array
    o: Array


@dataclass(frozen=True)
class LayerWeights:
    """One decoder layer.  input_norm, post_attention_norm : [H]."""

    input_norm: Array
    attention: AttentionWeights
    post_attention_norm: Array
    moe: MoELayerWeights


@dataclass(frozen=True)
class DecoderWeights:
    """A whole decoder.

    embedding : [V, H];  final_norm : [H];  lm_head : [V, H] (the embedding itself where tied).
    layers : L items; a list, or a lazy sequence.
    """

    embedding: Array
    layers: Sequence[LayerWeights]
    final_norm: Array
    lm_head: Array
