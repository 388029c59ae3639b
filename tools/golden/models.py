"""Draw a random model, write its checkpoint, and load a checkpoint for running."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM, Mxfp4Config

from tools.golden import deepseek_v1
from tools.golden.capture import Array
from tools.golden.configurations import RandomModel

# Fields that transformers derives from others and published files leave out.
DERIVED = ("head_dim", "layer_types", "qk_head_dim")
# What published checkpoints call experts.
MARKS = {
    ("apart", "mixtral"): "block_sparse_moe.experts.0.w1.weight",
    ("mxfp4", "gpt_oss"): "mlp.experts.gate_up_proj_blocks",
}
COMMON_MARKS = {"apart": "mlp.experts.0.gate_proj.weight", "fused": "mlp.experts.gate_up_proj"}


def write_checkpoint(spec: RandomModel, folder: Path) -> None:
    """Draw the weights and let transformers write them."""
    model = build(spec)
    rng = np.random.default_rng(spec.seed)
    with torch.no_grad():
        for name, parameter in [*model.named_parameters(), *corrections(model)]:
            parameter.copy_(torch.from_numpy(draw(name, tuple(parameter.shape), rng)))
    model.to(getattr(torch, spec.dtype))
    folder.mkdir(parents=True)
    if spec.config["model_type"] == deepseek_v1.MODEL_TYPE:
        deepseek_v1.save(model, spec.config, spec.dtype, folder)
    else:
        save(model, spec, folder)
    if spec.layout == "mxfp4":
        pack(folder, rng)
    if spec.published_config:
        respell(folder / "config.json", spec.config)
    check_layout(folder, spec)


def build(spec: RandomModel) -> Any:
    """The model with transformers' own initial weights."""
    fields = spec.config
    kind = fields.pop("model_type")
    if "rope_theta" in fields:
        parameters = {"rope_type": "default", "rope_theta": fields.pop("rope_theta")}
        fields.setdefault("rope_parameters", parameters)
    if kind == deepseek_v1.MODEL_TYPE:
        return deepseek_v1.build(fields)
    return AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **fields))


def corrections(model: Any) -> list[tuple[str, torch.Tensor]]:
    """DeepSeek-V3's correction biases, which are no parameters."""
    return [each for each in model.named_buffers() if each[0].endswith("e_score_correction_bias")]


def draw(name: str, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """A random parameter, scaled so that attention and routing are decisive.

    transformers' own initialisation (0.02 throughout, norms 1) leaves routers nearly flat and
    would not notice a norm weight or a bias that is never applied.
    """
    values = rng.standard_normal(shape)
    if name.endswith("sinks"):
        return 1 + values
    if name.endswith("e_score_correction_bias"):
        return 0.15 * values
    if name.endswith("bias"):
        return 0.3 * values
    if len(shape) == 1:
        return 1 + 0.2 * values
    if "embed_tokens" in name:
        return 0.6 * values
    gain = 2.5 if "lm_head" in name else 2.0 if "mlp.gate." in name or "router" in name else 1.0
    fan_in = shape[-1]
    return gain / np.sqrt(fan_in) * values


def save(model: Any, spec: RandomModel, folder: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        model.save_pretrained(
            scratch,
            max_shard_size=spec.shard_bytes or 2**30,
            save_original_format=spec.layout != "fused",
        )
        for file in [Path(scratch, "config.json"), *Path(scratch).glob("model*")]:
            shutil.copyfile(file, folder / file.name)


def pack(folder: Path, rng: np.random.Generator) -> None:
    """Put random MXFP4 blocks and scales in the place of a gpt-oss model's experts."""
    file, config_file = folder / "model.safetensors", folder / "config.json"
    tensors = load_file(file)
    for name in [name for name in tensors if name.endswith(("gate_up_proj", "down_proj"))]:
        experts, columns, rows = tensors.pop(name).shape
        scales = (experts, rows, columns // 32)
        blocks = rng.integers(0, 256, (*scales, 16), np.uint8)
        tensors[f"{name}_blocks"] = torch.from_numpy(blocks)
        # 1/32 to 1/8: on the whole as large as the weights of the other models.
        tensors[f"{name}_scales"] = torch.from_numpy(rng.integers(122, 125, scales, np.uint8))
    save_file(tensors, file, metadata={"format": "pt"})
    config = json.loads(config_file.read_text("utf-8"))
    apart = ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens"]
    config["quantization_config"] = {
        "modules_to_not_convert": [*apart, "lm_head"],
        "quant_method": "mxfp4",
    }
    write_json(config_file, config)


def respell(file: Path, given: dict[str, Any]) -> None:
    """Rewrite config.json as the published checkpoints of transformers 4 have it."""
    config = json.loads(file.read_text(encoding="utf-8"))
    rotary = config.pop("rope_parameters")
    config["rope_theta"] = rotary.pop("rope_theta")
    if rotary["rope_type"] != "default":
        key = "type" if "deepseek" in config["model_type"] else "rope_type"
        config["rope_scaling"] = {**rotary, key: rotary.pop("rope_type")}
    config["torch_dtype"] = config.pop("dtype")
    for name in DERIVED:
        if name not in given:
            config.pop(name, None)
    write_json(file, config)


def write_json(file: Path, value: dict[str, Any]) -> None:
    file.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def check_layout(folder: Path, spec: RandomModel) -> None:
    """Experts must be stored under the published names, one by one or fused as the row says."""
    names: list[str] = []
    for file in folder.glob("*.safetensors"):
        with safe_open(file, "numpy") as tensors:
            names += tensors.keys()
    key = (spec.layout, spec.config["model_type"])
    mark = MARKS.get(key) or COMMON_MARKS[spec.layout]
    if not any(name.endswith(mark) for name in names):
        raise SystemExit(f"{folder}: this transformers does not write the published tensor names")


def load(folder: Path, **config_changes: Any) -> Any:
    """The model in float32 from the stored values, with the plainest implementations.

    config_changes : fields of config.json to override, to see what difference they make.
    Raises SystemExit where tensors of the checkpoint are missing or left over.
    """
    written = json.loads((folder / "config.json").read_text("utf-8"))
    if written["model_type"] == deepseek_v1.MODEL_TYPE:
        return deepseek_v1.load(folder, {**written, **config_changes}).eval()
    config = AutoConfig.from_pretrained(folder)
    for name, value in config_changes.items():
        setattr(config, name, value)
    packed = "quantization_config" in written
    model, info = AutoModelForCausalLM.from_pretrained(
        folder,
        config=config,
        dtype=torch.float32,
        attn_implementation="eager",
        experts_implementation="eager",
        output_loading_info=True,
        **({"quantization_config": Mxfp4Config(dequantize=True)} if packed else {}),
    )
    problems = {kind: sorted(names) for kind, names in info.items() if names}
    if problems:
        raise SystemExit(f"{folder} does not load cleanly: {problems}")
    return model.eval()
