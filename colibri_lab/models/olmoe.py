"""OLMoE: norms over all of q and of k, clipping, no renormalising.   Source: arXiv:2409.02060."""

from __future__ import annotations

from ..config import ModelConfig, MoEConfig, RoutingRule
from ..reference.weights import Attention
from .config_file import ConfigFile, field, model_config, optional, over_zero, rope
from .family import Family, grouped_query, plain_router, routed_expert
from .reader import TensorReader


def read_config(file: ConfigFile) -> ModelConfig:
    moe = MoEConfig(
        hidden_size=field(file, "hidden_size", int),
        intermediate_size=field(file, "intermediate_size", int),
        num_experts=field(file, "num_experts", int, file.get("num_local_experts")),
        top_k=field(file, "num_experts_per_tok", int),
        rule=RoutingRule(renormalize=field(file, "norm_topk_prob", bool, False)),
    )
    eps = over_zero(file, "rms_norm_eps", 1e-5)
    return model_config(file, moe, rms_norm_eps=eps, dense_intermediate_size=None)


def attention(reader: TensorReader, file: ConfigFile, config: ModelConfig, layer: int) -> Attention:
    bias = field(file, "attention_bias", bool, False)
    return grouped_query(
        reader,
        config,
        layer,
        rope(file, config.head_dim),
        bias=bias,
        output_bias=bias,
        norms=(config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim),
        clip=optional(file, "clip_qkv", float),
    )


OLMOE = Family("OlmoeForCausalLM", read_config, attention, plain_router, routed_expert)
