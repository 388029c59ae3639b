"""gpt-oss: biases in router, experts and attention, a clamped activation, attention sinks, sliding
windows in every other layer.   Source: arXiv:2508.10925."""

from __future__ import annotations

from typing import Any

from ..config import ModelConfig, MoEConfig, RoutingRule
from ..reference.weights import Array, Attention, Clamp, ExpertBias, ExpertWeights
from .config_file import ConfigFile, field, model_config, optional, over_zero, rope, sliding_windows
from .family import Family, RouterWeights, grouped_query
from .reader import TensorReader

# What a config.json without rotary parameters means.
ROPE = {
    "rope_type": "yarn",
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
    window = optional({"sliding_window": 128, **file}, "sliding_window", int)
    return model_config(
        file,
        moe,
        head_dim=field(file, "head_dim", int, 64),
        rms_norm_eps=over_zero(file, "rms_norm_eps", 1e-5),
        dense_intermediate_size=None,
        sliding_windows=sliding_windows(file, window, lambda layer: layer % 2 == 0),
    )


def attention(reader: TensorReader, file: ConfigFile, config: ModelConfig, layer: int) -> Attention:
    bias = field(file, "attention_bias", bool, True)
    turn = rope(_with_rope(file), config.head_dim)
    return grouped_query(reader, config, layer, turn, bias=bias, output_bias=bias, sinks=True)


def _with_rope(file: ConfigFile) -> ConfigFile:
    described: dict[str, Any] = {"rope_theta": 150000.0, **file}
    if not (file.get("rope_parameters") or file.get("rope_scaling")):
        described["rope_scaling"] = ROPE
    return described


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
    """Rows of gate and up in turn; plain, or as the published checkpoints have it, in MXFP4."""
    prefix = f"model.layers.{layer}.mlp.experts"
    experts, inner = config.moe.num_experts, config.moe.intermediate_size
    hidden = config.hidden_size
    gate_up = _matrix(reader, f"{prefix}.gate_up_proj", (experts, 2 * inner, hidden), expert)
    biases = reader.read(f"{prefix}.gate_up_proj_bias", (experts, 2 * inner), expert)
    down = _matrix(reader, f"{prefix}.down_proj", (experts, hidden, inner), expert)
    down_bias = reader.read(f"{prefix}.down_proj_bias", (experts, hidden), expert)
    return ExpertWeights(
        gate=gate_up[0::2],
        up=gate_up[1::2],
        down=down,
        bias=ExpertBias(biases[0::2], biases[1::2], down_bias),
        clamp=Clamp(
            limit=field(file, "swiglu_limit", float, 7.0),
            alpha=field(file, "swiglu_alpha", float, 1.702),
        ),
    )


def _matrix(reader: TensorReader, name: str, shape: tuple[int, int, int], expert: int) -> Array:
    """One expert's [out, in] of a tensor of `shape` [E, out, in], which plain files transpose."""
    if f"{name}_blocks" in reader:
        return reader.read_mxfp4(name, shape, expert)
    experts, rows, columns = shape
    return reader.read(name, (experts, columns, rows), expert).T


GPT_OSS = Family("GptOssForCausalLM", read_config, attention, router, expert)
