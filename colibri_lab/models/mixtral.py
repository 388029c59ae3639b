"""Mixtral: softmax over all experts, the K best, renormalised.   Source: arXiv:2401.04088."""

from __future__ import annotations

from ..config import ModelConfig, MoEConfig
from ..reference.weights import Attention, ExpertWeights
from .config_file import ConfigFile, field, model_config, optional, over_zero, rope
from .family import Family, RouterWeights, fused_expert, grouped_query, plain_router
from .reader import TensorReader


def read_config(file: ConfigFile) -> ModelConfig:
    moe = MoEConfig(
        hidden_size=field(file, "hidden_size", int),
        intermediate_size=field(file, "intermediate_size", int),
        num_experts=field(file, "num_local_experts", int),
        top_k=field(file, "num_experts_per_tok", int),
    )
    layers = field(file, "num_hidden_layers", int)
    window = optional(file, "sliding_window", int)
    return model_config(
        file,
        moe,
        rms_norm_eps=over_zero(file, "rms_norm_eps", 1e-5),
        dense_intermediate_size=None,
        sliding_windows=(window,) * layers,
    )


def attention(reader: TensorReader, file: ConfigFile, config: ModelConfig, layer: int) -> Attention:
    return grouped_query(reader, config, layer, rope(file, config.head_dim))


def router(
    reader: TensorReader, file: ConfigFile, config: ModelConfig, layer: int
) -> RouterWeights:
    name = f"model.layers.{layer}.block_sparse_moe.gate.weight"
    if name not in reader and f"model.layers.{layer}.mlp.gate.weight" in reader:
        return plain_router(reader, file, config, layer)
    return RouterWeights(reader.read(name, (config.moe.num_experts, config.hidden_size)))


def expert(
    reader: TensorReader, file: ConfigFile, config: ModelConfig, layer: int, expert: int
) -> ExpertWeights:
    fused = f"model.layers.{layer}.mlp.experts"
    if f"{fused}.gate_up_proj" in reader:
        return fused_expert(reader, fused, config, expert)
    prefix = f"model.layers.{layer}.block_sparse_moe.experts.{expert}"
    wide = (config.moe.intermediate_size, config.hidden_size)
    return ExpertWeights(
        gate=reader.read(f"{prefix}.w1.weight", wide),
        up=reader.read(f"{prefix}.w3.weight", wide),
        down=reader.read(f"{prefix}.w2.weight", wide[::-1]),
    )


MIXTRAL = Family("MixtralForCausalLM", read_config, attention, router, expert)
