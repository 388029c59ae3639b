"""Small random checkpoints for tests, written in the published Mixtral layout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

CONFIG = {
    "architectures": ["MixtralForCausalLM"],
    "model_type": "mixtral",
    "vocab_size": 64,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "hidden_act": "silu",
}


def tensor_shapes(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Name -> shape of every tensor of the configuration."""
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    head_dim = hidden // config["num_attention_heads"]
    key_value = head_dim * config["num_key_value_heads"]
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (config["vocab_size"], hidden),
        "model.norm.weight": (hidden,),
        "lm_head.weight": (config["vocab_size"], hidden),
    }
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}"
        shapes[f"{prefix}.input_layernorm.weight"] = (hidden,)
        shapes[f"{prefix}.post_attention_layernorm.weight"] = (hidden,)
        for part, rows in {"q": hidden, "k": key_value, "v": key_value}.items():
            shapes[f"{prefix}.self_attn.{part}_proj.weight"] = (rows, hidden)
        shapes[f"{prefix}.self_attn.o_proj.weight"] = (hidden, hidden)
        moe = f"{prefix}.block_sparse_moe"
        shapes[f"{moe}.gate.weight"] = (config["num_local_experts"], hidden)
        for expert in range(config["num_local_experts"]):
            shapes[f"{moe}.experts.{expert}.w1.weight"] = (inner, hidden)
            shapes[f"{moe}.experts.{expert}.w3.weight"] = (inner, hidden)
            shapes[f"{moe}.experts.{expert}.w2.weight"] = (hidden, inner)
    return shapes


def random_tensors(
    config: dict[str, Any], dtype: Any = np.float32, seed: int = 0
) -> dict[str, Any]:
    """Name -> random tensor; large enough values that routing is decisive."""
    rng = np.random.default_rng(seed)
    return {
        name: np.ones(shape, dtype) if len(shape) == 1 else rng.normal(0, 0.4, shape).astype(dtype)
        for name, shape in tensor_shapes(config).items()
    }


def write_checkpoint(
    folder: Path, dtype: Any = np.float32, seed: int = 0, **changes: Any
) -> dict[str, Any]:
    """Write config.json and model.safetensors; return the tensors.

    changes : fields of config.json that differ from `CONFIG`.
    """
    config = {**CONFIG, **changes}
    tensors = random_tensors(config, dtype, seed)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    save_file(tensors, folder / "model.safetensors")
    return tensors


def write_sharded(folder: Path, **changes: Any) -> None:
    """The same checkpoint in two shards with an index."""
    tensors = write_checkpoint(folder, **changes)
    (folder / "model.safetensors").unlink()
    names = sorted(tensors)
    shards = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for file, held in shards.items():
        save_file({name: tensors[name] for name in held}, folder / file)
    weight_map = {name: file for file, held in shards.items() for name in held}
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
