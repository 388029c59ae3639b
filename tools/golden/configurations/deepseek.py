"""The small random DeepSeek models, v1 to V3: what each is for is said above it."""

from __future__ import annotations

from .random_model import LONG, family

SIZES = {
    "vocab_size": 64,
    "hidden_size": 16,
    "intermediate_size": 20,
    "moe_intermediate_size": 8,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "n_routed_experts": 8,
    "n_shared_experts": 2,
    "num_experts_per_tok": 3,
    "first_k_dense_replace": 1,
    "max_position_embeddings": 1024,
}
HEADS = {"kv_lora_rank": 12, "qk_nope_head_dim": 6, "qk_rope_head_dim": 8, "v_head_dim": 5}
PLAIN = {"rope_type": "default", "rope_theta": 1e4}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 1e4,
    "factor": 40,
    "beta_fast": 32,
    "beta_slow": 1,
    "mscale": 0.707,
    "mscale_all_dim": 0.707,
    "original_max_position_embeddings": 512,
}
v1 = family({"model_type": "deepseek", "rope_theta": 1e4, "scoring_func": "softmax", **SIZES})
v2 = family({"model_type": "deepseek_v2", "scoring_func": "softmax", **SIZES, **HEADS})
v3 = family(
    {
        "model_type": "deepseek_v3",
        "scoring_func": "sigmoid",
        "topk_method": "noaux_tc",
        "n_group": 4,
        "topk_group": 2,
        "q_lora_rank": 10,
        "num_nextn_predict_layers": 0,
        **SIZES,
        **HEADS,
    }
)

DEEPSEEK_V1 = {
    # As deepseek-moe-16b: the first layer dense, two shared experts, nothing renormalised.
    "deepseek-v1-base": v1(
        60, dtype="bfloat16", published_config=True, prompts=LONG, norm_topk_prob=False
    ),
    # Renormalised, one shared expert, grouped queries, biases, no dense layer.
    "deepseek-v1-renormalised": v1(
        61,
        dtype="bfloat16",
        norm_topk_prob=True,
        n_shared_experts=1,
        num_key_value_heads=2,
        attention_bias=True,
        num_hidden_layers=2,
        first_k_dense_replace=0,
    ),
    # Experts in every second layer from the second on: 2 and 4 of five; one expert a token.
    "deepseek-v1-frequency": v1(
        62,
        dtype="bfloat16",
        norm_topk_prob=True,
        num_experts_per_tok=1,
        num_hidden_layers=5,
        moe_layer_freq=2,
        n_routed_experts=4,
    ),
}

DEEPSEEK_V2 = {
    # As DeepSeek-V2-Lite: queries straight from the hidden states, all experts compete, YaRN.
    "deepseek-v2-lite": v2(
        70,
        dtype="bfloat16",
        published_config=True,
        prompts=LONG,
        q_lora_rank=None,
        rope_parameters=YARN,
    ),
    # As DeepSeek-V2: queries of low rank, experts from the best groups, scaled. Here mscale is not
    # mscale_all_dim, so that the rotary embedding has a magnitude of its own.
    "deepseek-v2-groups": v2(
        71,
        dtype="bfloat16",
        published_config=True,
        q_lora_rank=10,
        topk_method="group_limited_greedy",
        n_group=4,
        topk_group=2,
        routed_scaling_factor=4.0,
        n_shared_experts=1,
        rope_parameters={**YARN, "mscale": 1.0, "mscale_all_dim": 0.4},
    ),
    # No stretching; biases; no dense layer; groups of four.
    "deepseek-v2-bias": v2(
        72,
        dtype="bfloat16",
        q_lora_rank=10,
        attention_bias=True,
        topk_method="group_limited_greedy",
        n_group=2,
        topk_group=1,
        routed_scaling_factor=1.5,
        num_hidden_layers=2,
        first_k_dense_replace=0,
        rope_parameters=PLAIN,
    ),
    # Experts fused into one tensor.
    "deepseek-v2-fused": v2(
        73, layout="fused", dtype="bfloat16", q_lora_rank=None, rope_parameters=PLAIN
    ),
}

DEEPSEEK_V3 = {
    # As DeepSeek-V3: two groups of four, renormalised, then scaled by 2.5; YaRN with mscale 1.
    "deepseek-v3-base": v3(
        80,
        dtype="bfloat16",
        published_config=True,
        prompts=LONG,
        rope_parameters={**YARN, "mscale": 1.0, "mscale_all_dim": 1.0},
    ),
    # Not renormalised, pairs apart, queries straight from the hidden states, one group, as
    # Moonlight has it; no stretching.
    "deepseek-v3-halves": v3(
        81,
        dtype="bfloat16",
        norm_topk_prob=False,
        rope_interleave=False,
        q_lora_rank=None,
        n_group=1,
        topk_group=1,
        routed_scaling_factor=1.0,
        n_shared_experts=1,
        rope_parameters=PLAIN,
    ),
    # Larger groups, biases, not renormalised but scaled, pairs apart under YaRN.
    "deepseek-v3-halves-yarn": v3(
        82,
        dtype="bfloat16",
        norm_topk_prob=False,
        rope_interleave=False,
        attention_bias=True,
        n_routed_experts=12,
        n_group=3,
        routed_scaling_factor=1.8,
        num_hidden_layers=2,
        rope_parameters={**YARN, "mscale": 1.0, "mscale_all_dim": 0.4},
    ),
    # Experts fused into one tensor; interleaved without stretching.
    "deepseek-v3-fused": v3(83, layout="fused", dtype="bfloat16", rope_parameters=PLAIN),
}
