"""Frozen descriptions of a model, its MoE layers and the machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .errors import InputError

RouterOrder = Literal["softmax_topk", "topk_softmax"]


@dataclass(frozen=True)
class MoEConfig:
    """The sizes and the routing rule of one kind of MoE layer.

    order : ``softmax_topk`` takes the softmax over all E experts and then the K best;
        ``topk_softmax`` takes the K best logits and then the softmax over those K.
    renormalize : divide the K weights by their sum (no effect after ``topk_softmax``).
    """

    hidden_size: int
    intermediate_size: int
    num_experts: int
    top_k: int
    order: RouterOrder = "softmax_topk"
    renormalize: bool = True

    def __post_init__(self) -> None:
        for name in ("hidden_size", "intermediate_size", "num_experts"):
            _require_positive(name, getattr(self, name))
        check_top_k(self.top_k, self.num_experts)

    @property
    def expert_params(self) -> int:
        """Weights in one expert: gate, up and down."""
        return 3 * self.intermediate_size * self.hidden_size


@dataclass(frozen=True)
class ModelConfig:
    """A decoder-only MoE language model, as its ``config.json`` describes it.

    sliding_window : tokens that attention looks back on, itself included; None: all.
    max_seq_len : positions that the model was made for.
    """

    model_type: str
    vocab_size: int
    hidden_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rope_theta: float
    rms_norm_eps: float
    max_seq_len: int
    tie_embeddings: bool
    moe: MoEConfig
    sliding_window: int | None = None
    eos_token_ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name in ("vocab_size", "num_layers", "num_heads", "num_kv_heads", "head_dim"):
            _require_positive(name, getattr(self, name))
        _require_positive("max_seq_len", self.max_seq_len)
        if self.sliding_window is not None:
            _require_positive("sliding_window", self.sliding_window)
        if self.num_heads % self.num_kv_heads:
            raise InputError(
                "num_heads must be a multiple of num_kv_heads",
                expected=f"a multiple of {self.num_kv_heads}",
                found=self.num_heads,
            )
        if self.head_dim % 2:
            raise InputError(
                "head_dim must be even: rotary embedding turns pairs",
                expected="an even number",
                found=self.head_dim,
            )


@dataclass(frozen=True)
class HardwareSpec:
    """The limits of a machine that a roofline needs, measured or published.

    read_gbps : memory read bandwidth, 1e9 bytes a second.
    gflops : multiply-adds counted as two, 1e9 operations a second.
    source : where the figures are from: ``measured`` or a citation.
    """

    name: str
    read_gbps: float
    gflops: float
    source: str


def check_top_k(top_k: int, num_experts: int) -> int:
    """Return top_k where 1 <= top_k <= num_experts; InputError otherwise."""
    if not 1 <= top_k <= num_experts:
        raise InputError(
            "top_k is out of range",
            expected=f"1 to num_experts = {num_experts}",
            found=top_k,
            hint="choose a top_k that the model's number of experts allows",
        )
    return top_k


def _require_positive(name: str, value: int) -> None:
    if value < 1:
        raise InputError(f"{name} must be positive", expected="1 or more", found=value)
