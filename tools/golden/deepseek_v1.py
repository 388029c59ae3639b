"""DeepSeekMoE v1 put together from transformers' parts, which does not have it.

Its published code runs from the checkpoint's own repository. That code is Llama's attention and
dense layers with an MoE layer that became DeepSeek-V2's: a softmax over all experts, the K best,
and shared experts beside them. V2's has no renormalising, so the router here adds it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from transformers import DeepseekV2Config, LlamaConfig, LlamaForCausalLM
from transformers.models.deepseek_v2.modeling_deepseek_v2 import DeepseekV2Moe, DeepseekV2TopkRouter

MODEL_TYPE = "deepseek"
ARCHITECTURE = "DeepseekForCausalLM"
SHARED_FIELDS = (
    "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "max_position_embeddings", "rms_norm_eps", "rope_parameters",
    "attention_bias", "hidden_act", "tie_word_embeddings",
)  # fmt: skip
MOE_FIELDS = (
    "hidden_size", "intermediate_size", "moe_intermediate_size", "num_attention_heads",
    "n_routed_experts", "n_shared_experts", "num_experts_per_tok", "norm_topk_prob", "hidden_act",
)  # fmt: skip


class RenormalisingTopkRouter(DeepseekV2TopkRouter):
    """V2's router, whose K weights sum to 1; of a single weight v1's code makes no 1."""

    def forward(self, hidden_states: torch.Tensor) -> tuple[torch.Tensor, ...]:
        logits, weights, ids = super().forward(hidden_states)
        return logits, weights / weights.sum(dim=-1, keepdim=True), ids


def build(fields: dict[str, Any]) -> Any:
    """The model; fields : of a published config.json, but with rope_parameters."""
    config = LlamaConfig(**{name: fields[name] for name in SHARED_FIELDS if name in fields})
    config._attn_implementation = "eager"
    model = LlamaForCausalLM(config)
    for index in moe_layers(fields):
        model.model.layers[index].mlp = moe_block(fields)
    return model


def moe_layers(fields: dict[str, Any]) -> list[int]:
    first, step = fields["first_k_dense_replace"], fields.get("moe_layer_freq", 1)
    return [i for i in range(fields["num_hidden_layers"]) if i >= first and i % step == 0]


def moe_block(fields: dict[str, Any]) -> DeepseekV2Moe:
    config = DeepseekV2Config(
        topk_method="greedy",
        routed_scaling_factor=1.0,
        **{name: fields[name] for name in MOE_FIELDS if name in fields},
    )
    config._experts_implementation = "eager"
    block = DeepseekV2Moe(config)
    if fields["norm_topk_prob"] and fields["num_experts_per_tok"] > 1:
        block.gate = RenormalisingTopkRouter(config)
    return block


def save(model: Any, fields: dict[str, Any], dtype: str, folder: Path) -> None:
    """Write config.json and the weights under the published names."""
    config = {
        "architectures": [ARCHITECTURE],
        "hidden_act": "silu",
        "moe_layer_freq": 1,
        "rms_norm_eps": model.config.rms_norm_eps,
        "rope_parameters": model.config.rope_parameters,
        "tie_word_embeddings": False,
        "dtype": dtype,
        **{name: value for name, value in fields.items() if name != "rope_theta"},
    }
    text = json.dumps(config, indent=2, sort_keys=True) + "\n"
    (folder / "config.json").write_text(text, encoding="utf-8")
    tensors: dict[str, torch.Tensor] = {}
    for name, tensor in model.state_dict().items():
        tensors |= apart(name, tensor)
    save_file(
        {name: tensor.contiguous() for name, tensor in tensors.items()},
        folder / "model.safetensors",
        metadata={"format": "pt"},
    )


def apart(name: str, tensor: torch.Tensor) -> dict[str, torch.Tensor]:
    """One tensor of the model as the tensors of the file."""
    prefix, _, part = name.rpartition(".")
    if part == "gate_up_proj":
        pairs = [expert.chunk(2) for expert in tensor]
        return {
            f"{prefix}.{index}.{part}.weight": half
            for index, pair in enumerate(pairs)
            for part, half in zip(("gate_proj", "up_proj"), pair, strict=True)
        }
    if part == "down_proj":
        return {f"{prefix}.{i}.down_proj.weight": expert for i, expert in enumerate(tensor)}
    return {name: tensor}


def load(folder: Path, fields: dict[str, Any]) -> Any:
    """The model in float32; every tensor of the file must be used, and none be missing."""
    rotary = {"rope_type": "default", "rope_theta": fields.get("rope_theta")}
    model = build({"rope_parameters": rotary, **fields})
    tensors = load_file(folder / "model.safetensors")
    state = {
        name: fused(name, tensor, tensors).to(torch.float32)
        for name, tensor in model.state_dict().items()
    }
    if tensors:
        raise SystemExit(f"{folder} has tensors that belong nowhere: {sorted(tensors)}")
    model.load_state_dict(state)
    return model


def fused(name: str, like: torch.Tensor, tensors: dict[str, torch.Tensor]) -> torch.Tensor:
    """The inverse of `apart`; takes what it uses out of `tensors`."""
    prefix, _, part = name.rpartition(".")
    if part not in ("gate_up_proj", "down_proj"):
        return tensors.pop(name)
    parts = ("gate_proj", "up_proj") if part == "gate_up_proj" else (part,)
    experts = [
        torch.cat([tensors.pop(f"{prefix}.{index}.{each}.weight") for each in parts])
        for index in range(len(like))
    ]
    return torch.stack(experts)
