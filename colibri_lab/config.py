"""Frozen descriptions of a model, its MoE layers and the machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from .errors import InputError

RouterOrder = Literal["softmax_topk", "topk_softmax"]
Scoring = Literal["softmax", "sigmoid"]
GroupScore = Literal["best", "best_two"]


@dataclass(frozen=True)
class RoutingRule:
    """How router logits become K experts and their weights.

    order : ``softmax_topk`` scores all E experts and then takes the K best; ``topk_softmax`` takes
        the K best logits and then the softmax over those K.
    renormalize : divide the K weights by their sum (no effect after ``topk_softmax``).
    scoring : ``softmax``, or ``sigmoid`` (DeepSeek-V3; with ``softmax_topk`` alone).
    num_groups, top_groups : experts are taken from the top_groups best of num_groups equal groups.
    group_score : a group counts as its best expert, or as the sum of its two best.
    scaling : what the weights are multiplied by at the end.
    """

    order: RouterOrder = "softmax_topk"
    renormalize: bool = True
    scoring: Scoring = "softmax"
    num_groups: int = 1
    top_groups: int = 1
    group_score: GroupScore = "best"
    scaling: float = 1.0

    def __post_init__(self) -> None:
        known = {"order": RouterOrder, "scoring": Scoring, "group_score": GroupScore}
        for name, choices in known.items():
            if getattr(self, name) not in get_args(choices):
                raise InputError(
                    f"router {name} is not known",
                    expected=f"one of {', '.join(get_args(choices))}",
                    found=getattr(self, name),
                )
        if not 1 <= self.top_groups <= self.num_groups:
            raise InputError(
                "top_groups is out of range",
                expected=f"1 to num_groups = {self.num_groups}",
                found=self.top_groups,
            )


@dataclass(frozen=True)
class MoEConfig:
    """The sizes and the routing rule of a model's MoE layers."""

    hidden_size: int
    intermediate_size: int
    num_experts: int
    top_k: int
    rule: RoutingRule = RoutingRule()

    def __post_init__(self) -> None:
        for name in ("hidden_size", "intermediate_size", "num_experts"):
            _require_positive(name, getattr(self, name))
        check_top_k(self.top_k, self.num_experts)
        if self.num_experts % self.rule.num_groups:
            raise InputError(
                "the experts do not divide into groups",
                expected=f"a multiple of num_groups = {self.rule.num_groups}",
                found=self.num_experts,
            )
        allowed = self.num_experts // self.rule.num_groups * self.rule.top_groups
        if self.top_k > allowed:
            raise InputError(
                "top_k is over the experts of the groups that may be chosen",
                expected=f"at most {allowed}",
                found=self.top_k,
            )

    @property
    def expert_params(self) -> int:
        """Weights in one expert: gate, up and down."""
        return 3 * self.intermediate_size * self.hidden_size


@dataclass(frozen=True)
class ModelConfig:
    """A decoder-only MoE language model, as its ``config.json`` describes it.

    moe_layers : which of the num_layers decoder layers have experts; empty: all. An MoE layer's
        own index, in traces and caches, is its place in this list.
    dense_intermediate_size : of the layers without experts.
    sliding_windows : for each layer, how many tokens attention looks back on, itself included;
        None: all. Empty: all, in every layer.
    max_seq_len : positions that the model was made for.
    """

    model_type: str
    vocab_size: int
    hidden_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rms_norm_eps: float
    max_seq_len: int
    tie_embeddings: bool
    moe: MoEConfig
    moe_layers: tuple[int, ...] = ()
    dense_intermediate_size: int | None = None
    sliding_windows: tuple[int | None, ...] = ()
    eos_token_ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name in ("vocab_size", "num_layers", "num_heads", "num_kv_heads", "head_dim"):
            _require_positive(name, getattr(self, name))
        _require_positive("max_seq_len", self.max_seq_len)
        object.__setattr__(self, "moe_layers", self.moe_layers or tuple(range(self.num_layers)))
        windows = self.sliding_windows or (None,) * self.num_layers
        object.__setattr__(self, "sliding_windows", windows)
        for window in windows:
            if window is not None:
                _require_positive("sliding_window", window)
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

    @property
    def num_moe_layers(self) -> int:
        return len(self.moe_layers)


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
