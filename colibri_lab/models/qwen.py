"""Qwen's MoE models.

Qwen2-MoE (arXiv:2407.10671): biases on q, k and v; a shared expert behind a sigmoid gate.
Qwen3-MoE (arXiv:2505.09388): norms on the heads of q and k; no shared expert.
Both: softmax over all experts, then the K best, renormalised where config.json says so.
"""

from __future__ import annotations

from typing import Any

from ..config import ModelConfig, MoEConfig, RoutingRule
from ..reference.weights import Attention, SharedExpert
from .config_file import ConfigFile, field, model_config, rope, sliding_windows
from .family import Family, grouped_query, mlp, plain_router, routed_expert
from .reader import TensorReader


def _config(file: ConfigFile, **changes: Any) -> ModelConfig:
    moe = MoEConfig(
        hidden_size=field(file, "hidden_size", int),
        intermediate_size=field(file, "moe_intermediate_size", int),
        num_experts=field(file, "num_experts", int, file.get("num_local_experts")),
        top_k=field(file, "num_experts_per_tok", int),
        rule=RoutingRule(renormalize=field(file, "norm_topk_prob", bool, False)),
    )
    return model_config(file, moe, moe_layers=_moe_layers(file), **changes)


def _moe_layers(file: ConfigFile) -> tuple[int, ...]:
    """Every decoder_sparse_step-th layer, less those that mlp_only_layers names."""
    dense = field(file, "mlp_only_layers", list, [])
    step = field(file, "decoder_sparse_step", int, 1)
    layers = range(field(file, "num_hidden_layers", int))
    return tuple(layer for layer in layers if layer not in dense and (layer + 1) % step == 0)


def read_qwen2(file: ConfigFile) -> ModelConfig:
    window = field(file, "sliding_window", int, 4096)
    used = field(file, "use_sliding_window", bool, False)
    upper = field(file, "max_window_layers", int, 28)

    def slides(layer: int) -> bool:
        return used and layer % 2 == 0 and layer < upper

    return _config(file, sliding_windows=sliding_windows(file, window, slides))


def read_qwen3(file: ConfigFile) -> ModelConfig:
    layers = field(file, "num_hidden_layers", int)
    used = field(file, "use_sliding_window", bool, False)
    window = field(file, "sliding_window", int, 4096) if used else None
    return _config(file, sliding_windows=(window,) * layers)


def qwen2_attention(
    reader: TensorReader, file: ConfigFile, config: ModelConfig, layer: int
) -> Attention:
    bias = field(file, "qkv_bias", bool, True)
    return grouped_query(reader, config, layer, rope(file, config.head_dim), bias=bias)


def qwen3_attention(
    reader: TensorReader, file: ConfigFile, config: ModelConfig, layer: int
) -> Attention:
    bias = field(file, "attention_bias", bool, False)
    return grouped_query(
        reader,
        config,
        layer,
        rope(file, config.head_dim),
        bias=bias,
        output_bias=bias,
        norms=(config.head_dim, config.head_dim),
    )


def shared(reader: TensorReader, file: ConfigFile, config: ModelConfig, layer: int) -> SharedExpert:
    prefix = f"model.layers.{layer}.mlp"
    size = field(file, "shared_expert_intermediate_size", int)
    gate = reader.read(f"{prefix}.shared_expert_gate.weight", (1, config.hidden_size))
    return SharedExpert(mlp(reader, f"{prefix}.shared_expert", config.hidden_size, size), gate[0])


QWEN2_MOE = Family(
    "Qwen2MoeForCausalLM", read_qwen2, qwen2_attention, plain_router, routed_expert, shared
)
QWEN3_MOE = Family("Qwen3MoeForCausalLM", read_qwen3, qwen3_attention, plain_router, routed_expert)
