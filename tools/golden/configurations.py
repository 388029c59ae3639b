"""The small random Mixtral models: each differs from the first in what its comment says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

BASE: dict[str, Any] = {
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
}


@dataclass(frozen=True)
class RandomModel:
    """How to draw one checkpoint.

    changes : fields of `BASE` that differ.   dtype : what the weights are stored in.
    shard_bytes : largest file of a sharded checkpoint; None: one file.
    published_config : write config.json as the published Mixtral checkpoints spell it
        (rope_theta and torch_dtype at the top level), not as transformers 5 does.
    """

    seed: int
    dtype: str = "float32"
    shard_bytes: int | None = None
    published_config: bool = False
    changes: dict[str, Any] = field(default_factory=dict)

    @property
    def config(self) -> dict[str, Any]:
        return {**BASE, **self.changes}


MIXTRAL = {
    # As Mixtral-8x7B, only smaller.
    "base": RandomModel(1, published_config=True),
    # Every query head has its own keys and values; one expert a token, whose weight is then 1.
    "mha-top1": RandomModel(
        2,
        changes={
            "num_key_value_heads": 4,
            "num_local_experts": 4,
            "num_experts_per_tok": 1,
            "rope_theta": 1e4,
        },
    ),
    # All query heads share one key-value head; many experts; bfloat16.
    "mqa-bfloat16": RandomModel(
        3,
        dtype="bfloat16",
        changes={
            "num_key_value_heads": 1,
            "num_local_experts": 16,
            "num_hidden_layers": 3,
            "intermediate_size": 16,
        },
    ),
    # head_dim is not hidden_size / num_heads; odd intermediate size; three experts; float16.
    "head-dim-float16": RandomModel(
        4,
        dtype="float16",
        changes={
            "hidden_size": 24,
            "num_attention_heads": 3,
            "num_key_value_heads": 1,
            "head_dim": 14,
            "intermediate_size": 37,
            "num_experts_per_tok": 3,
            "rope_theta": 1e4,
        },
    ),
    # Attention looks back on 16 tokens, fewer than most prompts have.
    "window-16": RandomModel(
        5,
        published_config=True,
        changes={
            "sliding_window": 16,
            "num_hidden_layers": 3,
            "num_local_experts": 4,
            "rope_theta": 1e4,
        },
    ),
    # An odd window, over a bfloat16 model whose output head is its embedding.
    "window-7-tied": RandomModel(
        6,
        dtype="bfloat16",
        changes={
            "sliding_window": 7,
            "tie_word_embeddings": True,
            "num_local_experts": 16,
            "num_experts_per_tok": 3,
            "intermediate_size": 20,
        },
    ),
    # Tied embeddings, and an epsilon large enough to be seen in every norm.
    "tied-eps": RandomModel(
        7, dtype="float16", changes={"tie_word_embeddings": True, "rms_norm_eps": 0.05}
    ),
    # Several files and an index; four of eight experts.
    "sharded": RandomModel(
        8, dtype="float16", shard_bytes=32_000, changes={"num_experts_per_tok": 4}
    ),
    # Every expert takes every token: only the weights differ.
    "all-experts": RandomModel(
        9,
        changes={
            "hidden_size": 36,
            "num_attention_heads": 6,
            "num_key_value_heads": 3,
            "num_local_experts": 4,
            "num_experts_per_tok": 4,
            "intermediate_size": 17,
            "vocab_size": 67,
        },
    ),
}
