"""DeepSeek's MoE models: many small experts, shared ones beside them, first layers dense.

DeepSeekMoE v1 (arXiv:2401.06066): grouped-query attention, softmax, the K best.
V2 (arXiv:2405.04434): latent attention; experts from the best groups of devices.
V3 (arXiv:2412.19437): sigmoid scores, a correction bias for the choice, the best two of a group.
"""

from __future__ import annotations

from typing import Any

from ..config import ModelConfig, MoEConfig, RoutingRule
from ..reference.attention import LatentAttention, Linear
from ..reference.rope import yarn_magnitude
from ..reference.weights import Array, Attention, SharedExpert
from .config_file import ConfigFile, field, model_config, optional, require, rope, rope_parameters
from .family import (
    Family,
    RouterWeights,
    grouped_query,
    linear,
    mlp,
    plain_router,
    routed_expert,
)
from .reader import TensorReader


def _config(file: ConfigFile, rule: RoutingRule, **changes: Any) -> ModelConfig:
    moe = MoEConfig(
        hidden_size=field(file, "hidden_size", int),
        intermediate_size=field(file, "moe_intermediate_size", int),
        num_experts=field(file, "n_routed_experts", int),
        top_k=field(file, "num_experts_per_tok", int),
        rule=rule,
    )
    require(file, "mlp_bias", False)
    return model_config(file, moe, moe_layers=_moe_layers(file), **changes)


def _moe_layers(file: ConfigFile) -> tuple[int, ...]:
    first = field(file, "first_k_dense_replace", int, 0)
    step = field(file, "moe_layer_freq", int, 1)
    layers = range(field(file, "num_hidden_layers", int))
    return tuple(layer for layer in layers if layer >= first and layer % step == 0)


def read_v1(file: ConfigFile) -> ModelConfig:
    require(file, "scoring_func", "softmax")
    renormalize = field(file, "norm_topk_prob", bool, False)
    # The published code leaves a single weight as it is.
    single = field(file, "num_experts_per_tok", int) == 1
    return _config(file, RoutingRule(renormalize=renormalize and not single))


def read_v2(file: ConfigFile) -> ModelConfig:
    require(file, "scoring_func", "softmax")
    require(file, "topk_method", "greedy", "group_limited_greedy")
    require(file, "norm_topk_prob", False)  # no released model has it, and no source says its scale
    grouped = file.get("topk_method") == "group_limited_greedy"
    rule = RoutingRule(
        renormalize=False,
        num_groups=field(file, "n_group", int) if grouped else 1,
        top_groups=field(file, "topk_group", int) if grouped else 1,
        scaling=field(file, "routed_scaling_factor", float, 1.0),
    )
    return _config(file, rule, head_dim=_head_dim(file))


def read_v3(file: ConfigFile) -> ModelConfig:
    require(file, "scoring_func", "sigmoid")
    require(file, "topk_method", "noaux_tc")
    rule = RoutingRule(
        renormalize=field(file, "norm_topk_prob", bool, True),
        scoring="sigmoid",
        num_groups=field(file, "n_group", int, 8),
        top_groups=field(file, "topk_group", int, 4),
        group_score="best_two",
        scaling=field(file, "routed_scaling_factor", float, 2.5),
    )
    return _config(file, rule, head_dim=_head_dim(file))


def _head_dim(file: ConfigFile) -> int:
    nope, turning = (field(file, f"qk_{part}_head_dim", int) for part in ("nope", "rope"))
    return int(nope + turning)


def v1_attention(
    reader: TensorReader, file: ConfigFile, config: ModelConfig, layer: int
) -> Attention:
    bias = field(file, "attention_bias", bool, False)
    turn = rope(file, config.head_dim)
    return grouped_query(reader, config, layer, turn, bias=bias, output_bias=bias)


def latent_attention(
    reader: TensorReader, file: ConfigFile, config: ModelConfig, layer: int
) -> Attention:
    prefix = f"model.layers.{layer}.self_attn"
    hidden, heads = config.hidden_size, config.num_heads
    nope, turning = field(file, "qk_nope_head_dim", int), field(file, "qk_rope_head_dim", int)
    rank, value = field(file, "kv_lora_rank", int), field(file, "v_head_dim", int)
    bias = field(file, "attention_bias", bool, False)
    q_down, q_norm, q_up = _query(reader, file, config, prefix)
    return LatentAttention(
        q_down=q_down,
        q_norm=q_norm,
        q_up=q_up,
        kv_down=linear(reader, f"{prefix}.kv_a_proj_with_mqa", rank + turning, hidden, bias),
        kv_norm=reader.read(f"{prefix}.kv_a_layernorm.weight", (rank,)),
        kv_up=linear(reader, f"{prefix}.kv_b_proj", heads * (nope + value), rank, False),
        o=linear(reader, f"{prefix}.o_proj", hidden, heads * value, bias),
        num_heads=heads,
        nope_dim=nope,
        rope_dim=turning,
        rope=rope(file, turning, interleaved=field(file, "rope_interleave", bool, True)),
        scale=_scale(file, nope + turning),
    )


def _query(
    reader: TensorReader, file: ConfigFile, config: ModelConfig, prefix: str
) -> tuple[Linear | None, Array | None, Linear]:
    rank = optional(file, "q_lora_rank", int)
    width = config.num_heads * config.head_dim
    if rank is None:
        return None, None, linear(reader, f"{prefix}.q_proj", width, config.hidden_size, False)
    bias = field(file, "attention_bias", bool, False)
    return (
        linear(reader, f"{prefix}.q_a_proj", rank, config.hidden_size, bias),
        reader.read(f"{prefix}.q_a_layernorm.weight", (rank,)),
        linear(reader, f"{prefix}.q_b_proj", width, rank, False),
    )


def _scale(file: ConfigFile, head_dim: int) -> float:
    values = rope_parameters(file)
    weight = field(values, "mscale_all_dim", float, 0.0)
    if values["rope_type"] == "default" or not weight:
        return float(head_dim**-0.5)
    magnitude = yarn_magnitude(field(values, "factor", float), weight)
    return float(head_dim**-0.5 * magnitude * magnitude)


def v3_router(
    reader: TensorReader, file: ConfigFile, config: ModelConfig, layer: int
) -> RouterWeights:
    prefix = f"model.layers.{layer}.mlp.gate"
    experts = config.moe.num_experts
    return RouterWeights(
        reader.read(f"{prefix}.weight", (experts, config.hidden_size)),
        correction=reader.read(f"{prefix}.e_score_correction_bias", (experts,)),
    )


def shared(
    reader: TensorReader, file: ConfigFile, config: ModelConfig, layer: int
) -> SharedExpert | None:
    """n_shared_experts experts, stored as one that is as wide as all of them."""
    count = field(file, "n_shared_experts", int, 0)
    if count == 0:
        return None
    prefix = f"model.layers.{layer}.mlp.shared_experts"
    size = count * config.moe.intermediate_size
    return SharedExpert(mlp(reader, prefix, config.hidden_size, size))


DEEPSEEK_V1 = Family(
    "DeepseekForCausalLM", read_v1, v1_attention, plain_router, routed_expert, shared
)
DEEPSEEK_V2 = Family(
    "DeepseekV2ForCausalLM", read_v2, latent_attention, plain_router, routed_expert, shared
)
DEEPSEEK_V3 = Family(
    "DeepseekV3ForCausalLM", read_v3, latent_attention, v3_router, routed_expert, shared
)
