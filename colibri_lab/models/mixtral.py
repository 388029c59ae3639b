"""Mixtral: softmax over all experts, the K best, renormalised.   Source: arXiv:2401.04088."""

from __future__ import annotations

from ..config import ModelConfig, MoEConfig
from ..errors import ModelError
from .family import ConfigFile, Family, field, token_ids


def read_config(config: ConfigFile) -> ModelConfig:
    """config.json of a MixtralForCausalLM -> ModelConfig."""
    activation = field(config, "hidden_act", str, "silu")
    if activation != "silu":
        raise ModelError(
            "config.json: this activation is not known", expected="silu", found=activation
        )
    hidden_size = field(config, "hidden_size", int)
    num_heads = field(config, "num_attention_heads", int)
    window = config.get("sliding_window")
    return ModelConfig(
        model_type="mixtral",
        vocab_size=field(config, "vocab_size", int),
        hidden_size=hidden_size,
        num_layers=field(config, "num_hidden_layers", int),
        num_heads=num_heads,
        num_kv_heads=field(config, "num_key_value_heads", int, num_heads),
        head_dim=field(config, "head_dim", int, hidden_size // max(num_heads, 1)),
        rope_theta=_rope_theta(config),
        rms_norm_eps=field(config, "rms_norm_eps", float, 1e-5),
        max_seq_len=field(config, "max_position_embeddings", int),
        tie_embeddings=field(config, "tie_word_embeddings", bool, False),
        sliding_window=None if window is None else field(config, "sliding_window", int),
        eos_token_ids=token_ids(config, "eos_token_id"),
        moe=MoEConfig(
            hidden_size=hidden_size,
            intermediate_size=field(config, "intermediate_size", int),
            num_experts=field(config, "num_local_experts", int),
            top_k=field(config, "num_experts_per_tok", int),
        ),
    )


def _rope_theta(config: ConfigFile) -> float:
    """Older files have rope_theta, newer ones rope_parameters; scaled variants are refused."""
    parameters = config.get("rope_parameters") or config.get("rope_scaling") or {}
    kind = parameters.get("rope_type", parameters.get("type", "default"))
    if kind != "default":
        raise ModelError(
            "config.json: this kind of rotary embedding is not known",
            expected="default",
            found=kind,
        )
    theta: float = field({**config, **parameters}, "rope_theta", float, 1e6)
    return theta


def _layer(index: int) -> dict[str, str]:
    prefix = f"model.layers.{index}"
    return {
        "input_norm": f"{prefix}.input_layernorm.weight",
        "post_attention_norm": f"{prefix}.post_attention_layernorm.weight",
        **{part: f"{prefix}.self_attn.{part}_proj.weight" for part in "qkvo"},
    }


def _expert(layer: int, expert: int) -> tuple[str, str, str]:
    prefix = f"model.layers.{layer}.block_sparse_moe.experts.{expert}"
    return f"{prefix}.w1.weight", f"{prefix}.w3.weight", f"{prefix}.w2.weight"


MIXTRAL = Family(
    architecture="MixtralForCausalLM",
    read_config=read_config,
    router=lambda layer: f"model.layers.{layer}.block_sparse_moe.gate.weight",
    expert=_expert,
    layer=_layer,
    model={
        "embedding": "model.embed_tokens.weight",
        "final_norm": "model.norm.weight",
        "lm_head": "lm_head.weight",
    },
)
