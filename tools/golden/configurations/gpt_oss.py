"""The small random gpt-oss models: what each is for is said above it."""

from __future__ import annotations

from .random_model import LONG, family

row = family(
    {
        "model_type": "gpt_oss",
        "vocab_size": 64,
        "hidden_size": 16,
        "intermediate_size": 12,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "num_local_experts": 8,
        "num_experts_per_tok": 4,
        "max_position_embeddings": 131072,
        "sliding_window": 6,
    },
    layout="fused",
)

GPT_OSS = {
    # As gpt-oss-20b: YaRN from 4096 positions by 32, a window in every other layer, all biases.
    "gpt-oss-base": row(50, dtype="bfloat16", published_config=True, prompts=LONG),
    # No stretching, no biases in attention, one expert, cut where most values are.
    "gpt-oss-plain-rope": row(
        51,
        dtype="bfloat16",
        attention_bias=False,
        num_experts_per_tok=1,
        swiglu_limit=0.6,
        rope_parameters={"rope_type": "default", "rope_theta": 1e4},
    ),
    # Windows in other layers than by default; YaRN that bends within these prompts; three experts.
    "gpt-oss-layer-types": row(
        52,
        dtype="bfloat16",
        num_hidden_layers=3,
        num_local_experts=4,
        num_experts_per_tok=3,
        swiglu_limit=1.0,
        swiglu_alpha=1.2,
        sliding_window=9,
        layer_types=["full_attention", "sliding_attention", "sliding_attention"],
        rope_parameters={
            "rope_type": "yarn",
            "rope_theta": 1e3,
            "factor": 8.0,
            "beta_fast": 8.0,
            "beta_slow": 0.5,
            "original_max_position_embeddings": 64,
            "truncate": False,
        },
    ),
    # Experts as the published checkpoints have them; two experts.
    "gpt-oss-mxfp4": row(
        53,
        layout="mxfp4",
        dtype="bfloat16",
        published_config=True,
        hidden_size=32,
        intermediate_size=64,
        num_local_experts=4,
        num_experts_per_tok=2,
    ),
}
