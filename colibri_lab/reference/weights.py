"""The weights that the reference computes with, as plain arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

from ..errors import ShapeError
from .kv_cache import KVCache

Array = NDArray[Any]


@dataclass(frozen=True)
class ExpertBias:
    """gate, up : [I];  down : [H]."""

    gate: Array
    up: Array
    down: Array


@dataclass(frozen=True)
class Clamp:
    """The clamped activation of gpt-oss: (up + 1) * gate * sigmoid(alpha * gate), gate cut at
    `limit` from above and up on both sides."""

    limit: float
    alpha: float


@dataclass(frozen=True)
class ExpertWeights:
    """One SwiGLU expert: ``down( silu(gate x) * (up x) )``.

    gate, up : [I, H] float.   down : [H, I] float.   bias, clamp : gpt-oss alone has them.
    """

    gate: Array
    up: Array
    down: Array
    bias: ExpertBias | None = None
    clamp: Clamp | None = None

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
class SharedExpert:
    """An expert that every token takes, beside the routed ones.

    gate : [H], the token's sigmoid gate on its output (Qwen2-MoE), or None.
    """

    expert: ExpertWeights
    gate: Array | None = None


@dataclass(frozen=True)
class MoELayerWeights:
    """The router and the experts of one MoE layer.

    router : [H, E] float (a checkpoint's gate weight, transposed).
    experts : E items; a list, or a lazy sequence that reads an expert when it is indexed.
    router_bias : [E], added to the logits.   correction : [E], added for the choice alone.
    """

    router: Array
    experts: Sequence[ExpertWeights]
    router_bias: Array | None = None
    correction: Array | None = None
    shared: SharedExpert | None = None

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


class Attention(Protocol):
    """Weights of a self-attention that compute it."""

    def __call__(self, x: Array, cache: KVCache, layer: int) -> Array:
        """x : [B, S, H] float64, normalised.   Returns [B, S, H] float64."""
        ...


@dataclass(frozen=True)
class LayerWeights:
    """One decoder layer.

    input_norm, post_attention_norm : [H].   moe : the experts; or else dense : one feed-forward.
    """

    input_norm: Array
    attention: Attention
    post_attention_norm: Array
    moe: MoELayerWeights | None = None
    dense: ExpertWeights | None = None


@dataclass(frozen=True)
class DecoderWeights:
    """A whole decoder.

    embedding : [V, H];  final_norm : [H];  lm_head : [V, H] (the embedding itself where tied).
    layers : one a decoder layer; a list, or a lazy sequence.
    """

    embedding: Array
    layers: Sequence[LayerWeights]
    final_norm: Array
    lm_head: Array
