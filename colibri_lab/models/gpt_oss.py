"""gpt-oss: biases in router, experts and attention, a clamped activation, attention sinks, sliding
windows in every other layer.   Source: arXiv:2508.10925."""

from __future__ import annotations

from typing import Any

from ..config import ModelConfig, MoEConfig, RoutingRule
from ..reference.weights import Attention, Clamp, ExpertBias, ExpertWeights
from .config_file import ConfigFile, field, model_config, optional, rope
from .family import Family, RouterWeights, grouped_query
from .reader import TensorReader

# What a config.json without rotary parameters means.
ROPE = {
    "rope_type": "yarn",
    "rope_theta": 150000.0,
    "factor": 32.0,
    "truncate": False,
    "original_max_position_embeddings": 4096,
}


def read_config(file: ConfigFile) -> ModelConfig:
    moe = MoEConfig(
        hidden_size=field(file, "hidden_size", int),
        intermediate_size=field(file, "intermediate_size", int),
        num_experts=field(file, "num_local_experts", int, file.get("num_experts")),
        top_k=field(file, "num_experts_per_tok", int, file.get("experts_per_token")),
        rule=RoutingRule(order="topk_softmax"),
    )
    window = optional(file, "sliding_window", int)
    layers = range(field(file, "num_hidden_layers", int))
    kinds = file.get("layer_types") or [
        "full_attention" if layer % 2 else "sliding_attention" for layer in layers
    ]
    return model_config(
        file,
        moe,
        head_dim=field(file, "head_dim", int, 64),
        rms_norm_eps=field(file, "rms_norm_eps", float, 1e-5),
        dense_intermediate_size=None,
        sliding_windows=tuple(window if kind == "sliding_attention" else None for kind in kinds),
    )


def attention(reader: TensorReader, file: ConfigFile, config: ModelConfig, layer: int) -> Attention:
    bias = field(file, "attention_bias", bool, True)
    described: dict[str, Any] = {"rope_scaling": ROPE, "rope_theta": 150000.0, **file}
    turn = rope(described, config.head_dim)
    return grouped_query(reader, config, layer, turn, bias=bias, output_bias=bias, sinks=True)


def router(
    reader: TensorReader, file: ConfigFile, config: ModelConfig, layer: int
) -> RouterWeights:
    prefix = f"model.layers.{layer}.mlp.router"
    experts = config.moe.num_experts
    weight = reader.read(f"{prefix}.weight", (experts, config.hidden_size))
    return RouterWeights(weight, bias=reader.read(f"{prefix}.bias", (experts,)))


def expert(
    reader: TensorReader, file: ConfigFile, config: ModelConfig, layer: int, expert: int
) -> ExpertWeights:
    """gate_up_proj [E, H, 2I] has gate and up in turn, column by column; down_proj is [E, I, H]."""
    prefix = f"model.layers.{layer}.mlp.experts"
    experts, inner = config.moe.num_experts, config.moe.intermediate_size
    hidden = config.hidden_size
    gate_up = reader.read(f"{prefix}.gate_up_proj", (experts, hidden, 2 * inner), expert)
    biases = reader.read(f"{prefix}.gate_up_proj_bias", (experts, 2 * inner), expert)
    down = reader.read(f"{prefix}.down_proj", (experts, inner, hidden), expert)
    down_bias = reader.read(f"{prefix}.down_proj_bias", (experts, hidden), expert)
    return ExpertWeights(
        gate=gate_up[:, 0::2].T,
        up=gate_up[:, 1::2].T,
        down=down.T,
        bias=ExpertBias(biases[0::2], biases[1::2], down_bias),
        clamp=Clamp(
            limit=field(file, "swiglu_limit", float, 7.0),
            alpha=field(file, "swiglu_alpha", float, 1.702),
        ),
    )


GPT_OSS = Family("GptOssForCausalLM", read_config, attention, router, expert)
