"""The small random Qwen2-MoE and Qwen3-MoE models: what each is for is said above it."""

from __future__ import annotations

from .random_model import LONG, family

SIZES = {
    "vocab_size": 64,
    "hidden_size": 16,
    "intermediate_size": 20,
    "moe_intermediate_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "max_position_embeddings": 1024,
    "rope_theta": 1e4,
}
qwen2 = family({"model_type": "qwen2_moe", "shared_expert_intermediate_size": 24, **SIZES})
qwen3 = family({"model_type": "qwen3_moe", "head_dim": 12, **SIZES})

QWEN2_MOE = {
    # As Qwen1.5-MoE-A2.7B: weights are not renormalised, biases on q, k and v.
    "qwen2-base": qwen2(
        20,
        dtype="bfloat16",
        published_config=True,
        prompts=LONG,
        num_experts_per_tok=4,
        num_key_value_heads=4,
    ),
    # The other way round, tied, and with more experts.
    "qwen2-renormalised": qwen2(
        21,
        dtype="bfloat16",
        norm_topk_prob=True,
        qkv_bias=False,
        tie_word_embeddings=True,
        num_experts=16,
        num_experts_per_tok=3,
        shared_expert_intermediate_size=5,
    ),
    # Experts in every second layer, less one: 3 and 5 of six.
    "qwen2-sparse-step": qwen2(
        22,
        dtype="float16",
        num_hidden_layers=6,
        decoder_sparse_step=2,
        mlp_only_layers=[1],
        num_experts=4,
    ),
    # The default's windows, of which config.json says nothing: layers 0 and 2 of four.
    "qwen2-window": qwen2(
        23,
        published_config=True,
        dtype="bfloat16",
        num_hidden_layers=4,
        num_experts=4,
        use_sliding_window=True,
        sliding_window=6,
        max_window_layers=3,
    ),
    # Windows in the layers that layer_types names; the first layer dense.
    "qwen2-layer-types": qwen2(
        24,
        dtype="float16",
        num_hidden_layers=3,
        num_experts=4,
        norm_topk_prob=True,
        mlp_only_layers=[0],
        use_sliding_window=True,
        sliding_window=9,
        layer_types=["full_attention", "sliding_attention", "sliding_attention"],
    ),
}

QWEN3_MOE = {
    # As Qwen3-30B-A3B: head_dim is not hidden_size / num_heads, weights are renormalised.
    "qwen3-base": qwen3(
        30,
        dtype="bfloat16",
        published_config=True,
        prompts=LONG,
        norm_topk_prob=True,
        num_experts_per_tok=4,
    ),
    # Biases in attention; weights are not renormalised.
    "qwen3-bias": qwen3(31, dtype="bfloat16", attention_bias=True, num_key_value_heads=1),
    # Dense layers of both kinds, experts in layers 1 and 5 of six; a large epsilon in every norm.
    "qwen3-dense-layers": qwen3(
        32,
        dtype="bfloat16",
        num_hidden_layers=6,
        decoder_sparse_step=2,
        mlp_only_layers=[0, 3],
        num_experts=4,
        rms_norm_eps=0.02,
        norm_topk_prob=True,
    ),
    # A window in every layer.
    "qwen3-window": qwen3(
        33, dtype="float16", use_sliding_window=True, sliding_window=7, num_experts=4, head_dim=6
    ),
    # Experts fused into one tensor; positions stretched by YaRN as the model card tells to.
    "qwen3-fused-yarn": qwen3(
        34,
        layout="fused",
        dtype="bfloat16",
        published_config=True,
        norm_topk_prob=True,
        rope_parameters={
            "rope_type": "yarn",
            "rope_theta": 1e4,
            "factor": 4.0,
            "original_max_position_embeddings": 256,
        },
    ),
}
