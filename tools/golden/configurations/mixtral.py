"""The small random Mixtral models: each differs from the first in what its comment says."""

from __future__ import annotations

from .random_model import SHORT, THOROUGH, family

row = family(
    {
        "model_type": "mixtral",
        "vocab_size": 64,
        "hidden_size": 32,
        "intermediate_size": 28,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
        "max_position_embeddings": 1024,
        "rms_norm_eps": 1e-5,
        "rope_theta": 1e6,
        "sliding_window": None,
        "tie_word_embeddings": False,
    },
    prompts=THOROUGH,
)

MIXTRAL = {
    # As Mixtral-8x7B, only smaller.
    "mixtral-base": row(1, published_config=True),
    # Every query head has its own keys and values; one expert a token, whose weight is then 1.
    "mixtral-mha-top1": row(
        2, num_key_value_heads=4, num_local_experts=4, num_experts_per_tok=1, rope_theta=1e4
    ),
    # All query heads share one key-value head; many experts; bfloat16.
    "mixtral-mqa-bfloat16": row(
        3,
        dtype="bfloat16",
        num_key_value_heads=1,
        num_local_experts=16,
        num_hidden_layers=3,
        intermediate_size=16,
    ),
    # head_dim is not hidden_size / num_heads; odd intermediate size; three experts; float16.
    "mixtral-head-dim-float16": row(
        4,
        dtype="float16",
        hidden_size=24,
        num_attention_heads=3,
        num_key_value_heads=1,
        head_dim=14,
        intermediate_size=37,
        num_experts_per_tok=3,
        rope_theta=1e4,
    ),
    # Attention looks back on 16 tokens, fewer than most prompts have.
    "mixtral-window-16": row(
        5,
        published_config=True,
        sliding_window=16,
        num_hidden_layers=3,
        num_local_experts=4,
        rope_theta=1e4,
    ),
    # An odd window, over a bfloat16 model whose output head is its embedding.
    "mixtral-window-7-tied": row(
        6,
        dtype="bfloat16",
        sliding_window=7,
        tie_word_embeddings=True,
        num_local_experts=16,
        num_experts_per_tok=3,
        intermediate_size=20,
    ),
    # Tied embeddings, and an epsilon large enough to be seen in every norm.
    "mixtral-tied-eps": row(7, dtype="float16", tie_word_embeddings=True, rms_norm_eps=0.05),
    # Several files and an index; four of eight experts.
    "mixtral-sharded": row(8, dtype="float16", shard_bytes=32_000, num_experts_per_tok=4),
    # Every expert takes every token: only the weights differ.
    "mixtral-all-experts": row(
        9,
        hidden_size=36,
        num_attention_heads=6,
        num_key_value_heads=3,
        num_local_experts=4,
        num_experts_per_tok=4,
        intermediate_size=17,
        vocab_size=67,
    ),
    # Experts fused into one tensor.
    "mixtral-fused": row(
        10, layout="fused", dtype="bfloat16", prompts=SHORT, hidden_size=16, intermediate_size=12
    ),
}
