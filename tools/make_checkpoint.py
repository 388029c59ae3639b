"""Write a random Mixtral checkpoint of any size, shard by shard, for measurements.

``python -m tools.make_checkpoint OUT --layers 6`` gives 6.4 GiB of bfloat16 experts. Its values are
one random block repeated: sizes and layout are those of a real model, its text is noise.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from safetensors.numpy import save_file

Tensors = dict[str, np.ndarray[Any, Any]]


def config(options: argparse.Namespace) -> dict[str, Any]:
    """config.json of the published layout."""
    return {
        "architectures": ["MixtralForCausalLM"],
        "model_type": "mixtral",
        "vocab_size": options.vocabulary,
        "hidden_size": options.hidden,
        "intermediate_size": options.intermediate,
        "num_hidden_layers": options.layers,
        "num_attention_heads": options.hidden // 128,
        "num_key_value_heads": options.hidden // 256,
        "num_local_experts": options.experts,
        "num_experts_per_tok": 2,
        "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-5,
        "rope_theta": 1e6,
        "tie_word_embeddings": False,
        "hidden_act": "silu",
    }


class Values:
    """Tensors cut from one random block, each from another place."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        block = self._rng.standard_normal(1 << 22, np.float32) * 0.03
        self._block = block.astype(ml_dtypes.bfloat16)

    def __call__(self, *shape: int) -> np.ndarray[Any, Any]:
        start = int(self._rng.integers(0, len(self._block)))
        return np.resize(np.roll(self._block, start), shape)

    @staticmethod
    def ones(size: int) -> np.ndarray[Any, Any]:
        return np.ones(size, ml_dtypes.bfloat16)


def layer_tensors(values: Values, prefix: str, options: argparse.Namespace) -> Tensors:
    """One decoder layer."""
    hidden, inner = options.hidden, options.intermediate
    tensors = {
        f"{prefix}.input_layernorm.weight": values.ones(hidden),
        f"{prefix}.post_attention_layernorm.weight": values.ones(hidden),
        f"{prefix}.block_sparse_moe.gate.weight": values(options.experts, hidden),
    }
    for part, rows in {"q": hidden, "k": hidden // 2, "v": hidden // 2, "o": hidden}.items():
        tensors[f"{prefix}.self_attn.{part}_proj.weight"] = values(rows, hidden)
    for expert in range(options.experts):
        for part, shape in {
            "w1": (inner, hidden),
            "w3": (inner, hidden),
            "w2": (hidden, inner),
        }.items():
            tensors[f"{prefix}.block_sparse_moe.experts.{expert}.{part}.weight"] = values(*shape)
    return tensors


def write(out: Path, options: argparse.Namespace) -> int:
    """Write the checkpoint; returns its bytes."""
    out.mkdir(parents=True, exist_ok=True)
    values, weight_map = Values(options.seed), {}
    ends = {
        "model.embed_tokens.weight": values(options.vocabulary, options.hidden),
        "lm_head.weight": values(options.vocabulary, options.hidden),
        "model.norm.weight": values.ones(options.hidden),
    }
    for shard in range(options.layers + 1):
        name = f"model-{shard:05d}-of-{options.layers + 1:05d}.safetensors"
        last = shard == options.layers
        tensors = ends if last else layer_tensors(values, f"model.layers.{shard}", options)
        save_file(tensors, out / name)
        weight_map.update(dict.fromkeys(tensors, name))
    index = {"metadata": {}, "weight_map": weight_map}
    (out / "model.safetensors.index.json").write_text(json.dumps(index))
    (out / "config.json").write_text(json.dumps(config(options)))
    return sum(file.stat().st_size for file in out.glob("*.safetensors"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--experts", type=int, default=16)
    parser.add_argument("--hidden", type=int, default=2048)
    parser.add_argument("--intermediate", type=int, default=5632)
    parser.add_argument("--vocabulary", type=int, default=2048)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print(f"{write(options.out, options) / 2**30:.2f} GiB in {options.out}")


if __name__ == "__main__":
    main()
