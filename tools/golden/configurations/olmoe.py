"""The small random OLMoE models: what each is for is said above it."""

from __future__ import annotations

from .random_model import LONG, family

row = family(
    {
        "model_type": "olmoe",
        "vocab_size": 64,
        "hidden_size": 16,
        "intermediate_size": 12,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "max_position_embeddings": 1024,
        "rope_theta": 1e4,
        "pad_token_id": None,
        "eos_token_id": 0,
    }
)

OLMOE = {
    # As OLMoE-1B-7B: no clipping, weights are not renormalised, as many key-value heads as heads.
    "olmoe-base": row(
        40,
        dtype="bfloat16",
        published_config=True,
        prompts=LONG,
        num_key_value_heads=4,
        num_experts_per_tok=4,
    ),
    # Clipped where most values are; renormalised.
    "olmoe-clip": row(41, dtype="bfloat16", clip_qkv=0.5, norm_topk_prob=True),
    # One key-value head, so that the norm of all keys is as wide as a head's would be; biases.
    "olmoe-mqa-clip": row(
        42, dtype="float16", clip_qkv=0.75, num_key_value_heads=1, attention_bias=True
    ),
    # Experts fused into one tensor; a large epsilon in every norm.
    "olmoe-fused": row(43, layout="fused", dtype="bfloat16", rms_norm_eps=0.05, num_experts=16),
}
