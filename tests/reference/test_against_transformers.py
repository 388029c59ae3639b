"""The reference's logits and routing against those that transformers computed, stored in files."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from colibri_lab.config import RoutingRule
from colibri_lab.models import load_model
from colibri_lab.reference import Decoder, route
from tests.golden.reading import (
    HERE,
    SAMPLE,
    Golden,
    changed_files,
    checkpoint_folder,
    compare,
    golden_file,
    read_golden,
)

# transformers sums in float32: at logits of about 10, it is itself up to 1e-5 from what it
# computes with a cache (cache_difference in the metadata).
TOLERANCE = 1e-4

# Configuration -> misreadings of its config.json, each of which must show: otherwise the file could
# not tell right from wrong. A dot leads into an object.
CONFIGURATIONS: dict[str, list[dict[str, Any]]] = {
    "mixtral-all-experts": [{"num_experts_per_tok": 3}],
    "mixtral-base": [{"rope_theta": 1e4}, {"rms_norm_eps": 1e-6}, {"num_experts_per_tok": 1}],
    "mixtral-fused": [{"num_experts_per_tok": 1}],
    "mixtral-head-dim-float16": [{"rope_parameters.rope_theta": 1e6}],
    "mixtral-mha-top1": [{"rope_parameters.rope_theta": 1e6}],
    "mixtral-mqa-bfloat16": [{"num_experts_per_tok": 1}],
    "mixtral-sharded": [{"num_experts_per_tok": 3}],
    "mixtral-tied-eps": [{"rms_norm_eps": 1e-5}],
    "mixtral-window-16": [{"sliding_window": None}, {"sliding_window": 17}],
    "mixtral-window-7-tied": [{"sliding_window": 6}],
    "qwen2-base": [{"norm_topk_prob": True}, {"qkv_bias": False}, {"rope_theta": 1e5}],
    "qwen2-layer-types": [{"sliding_window": 10}, {"layer_types": ["full_attention"] * 3}],
    "qwen2-renormalised": [{"norm_topk_prob": False}],
    "qwen2-sparse-step": [{"num_experts_per_tok": 1}],
    "qwen2-window": [
        {"sliding_window": 7},
        {"use_sliding_window": False},
        {"max_window_layers": 2},
    ],
    "qwen3-base": [{"norm_topk_prob": False}, {"rope_theta": 1e5}],
    "qwen3-bias": [{"norm_topk_prob": True}, {"attention_bias": False}],
    "qwen3-dense-layers": [{"rms_norm_eps": 1e-6}],
    "qwen3-fused-yarn": [
        {"rope_scaling": None},
        {"rope_scaling.factor": 2.0},
        {"rope_scaling.attention_factor": 1.0},
        {"rope_scaling.original_max_position_embeddings": 1024},
    ],
    "qwen3-window": [{"sliding_window": 8}, {"use_sliding_window": False}],
    "olmoe-base": [{"norm_topk_prob": True}, {"rms_norm_eps": 1e-2}],
    "olmoe-clip": [{"clip_qkv": None}, {"clip_qkv": 0.6}, {"norm_topk_prob": False}],
    "olmoe-fused": [{"rms_norm_eps": 1e-5}],
    "olmoe-mqa-clip": [{"clip_qkv": None}, {"attention_bias": False}],
    "deepseek-v1-base": [{"norm_topk_prob": True}, {"rope_theta": 1e5}],
    "deepseek-v1-frequency": [{"num_experts_per_tok": 2}],
    "deepseek-v1-renormalised": [{"norm_topk_prob": False}, {"attention_bias": False}],
    "deepseek-v2-bias": [{"attention_bias": False}, {"topk_method": "greedy"}],
    "deepseek-v2-fused": [{"num_experts_per_tok": 2}],
    "deepseek-v2-groups": [
        {"routed_scaling_factor": 1.0},
        {"topk_method": "greedy"},
        {"n_group": 2, "topk_group": 1},
        {"rope_scaling.mscale": 0.4},
        {"rope_scaling.mscale_all_dim": 1.0},
    ],
    "deepseek-v2-lite": [
        {"rope_scaling": None},
        {"rope_scaling.mscale_all_dim": 0},
        {"rope_scaling.beta_fast": 4},
        {"rope_scaling.beta_slow": 0.1},
    ],
    "deepseek-v3-base": [
        {"norm_topk_prob": False},
        {"routed_scaling_factor": 1.0},
        {"topk_group": 3},
        {"n_group": 1, "topk_group": 1},
        {"rope_interleave": False},
        {"rope_scaling.mscale_all_dim": 0.5},
    ],
    "deepseek-v3-fused": [{"rope_interleave": False}],
    "deepseek-v3-halves": [{"rope_interleave": True}, {"norm_topk_prob": True}],
    "deepseek-v3-halves-yarn": [{"rope_interleave": True}, {"attention_bias": False}],
    "gpt-oss-base": [
        {"sliding_window": 7},
        {"attention_bias": False},
        {"rope_scaling.factor": 2.0},
        {"rope_scaling.truncate": True},
        {"swiglu_alpha": 1.0},
    ],
    "gpt-oss-layer-types": [
        {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"]},
        {"rope_parameters.truncate": True},
        {"rope_parameters.beta_fast": 32.0},
        {"swiglu_alpha": 1.702},
    ],
    "gpt-oss-mxfp4": [{"num_experts_per_tok": 1}],
    "gpt-oss-plain-rope": [{"swiglu_limit": 0.7}, {"rope_parameters": None}],
}
# Where one of the sample model and its golden file is, the other must be.
SAMPLES = [SAMPLE] if checkpoint_folder(SAMPLE).exists() or golden_file(SAMPLE).exists() else []
NAMES = [*CONFIGURATIONS, *SAMPLES]

golden = lru_cache(read_golden)


@lru_cache
def model(name: str) -> Decoder:
    return load_model(checkpoint_folder(name))


def cases() -> list[tuple[str, str]]:
    """Every configuration and case; a missing golden file fails in the test of the checksums."""
    made = [name for name in NAMES if golden_file(name).exists()]
    return [(name, case) for name in made for case in golden(name).cases]


def check_checkpoint(name: str, found: Golden) -> None:
    changed = changed_files(found)
    if changed:
        pytest.fail(
            f"{golden_file(name)} was made from other files than {found.checkpoint} has now: "
            f"{', '.join(changed)}. Make it again: {found.metadata['command']}"
        )


def test_every_golden_file_is_in_the_table():
    assert {file.parent.name for file in HERE.glob("*/golden.npz")} == set(CONFIGURATIONS)


@pytest.mark.parametrize("name", NAMES)
def test_golden_file_is_of_this_checkpoint(name):
    assert golden_file(name).exists(), "make it: see tools/golden/README.md"
    check_checkpoint(name, golden(name))


@pytest.mark.parametrize("cached", [False, True], ids=["whole", "cached"])
@pytest.mark.parametrize(("name", "case_name"), cases())
def test_logits_and_routing(name, case_name, cached):
    check_checkpoint(name, golden(name))
    case = golden(name).cases[case_name]
    length = case.token_ids.shape[1]
    found = compare(model(name), case, in_steps(case.steps, length) if cached else [length])
    assert found.topk_ids == 0
    assert found.topk_weights < TOLERANCE
    assert found.moe_inputs < TOLERANCE
    assert found.logits < TOLERANCE


def in_steps(steps: tuple[int, ...], length: int) -> list[int]:
    """As transformers was fed; where that was in one piece: the last two tokens one by one."""
    if len(steps) > 1:
        return list(steps)
    return [length - 2, 1, 1] if length > 2 else [1] * length


@pytest.mark.parametrize("name", NAMES)
def test_output_head(name):
    """Where logits differ, this says whether the head is to blame or something before it."""
    head = model(name).weights.lm_head.astype(np.float64)
    for case in golden(name).cases.values():
        logits = case.hidden_states.astype(np.float64) @ head.T
        assert np.abs(logits - case.logits).max() < TOLERANCE, case.name


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_golden_routing_is_well_defined(name):
    """No two probabilities that decide topk_ids are so near that rounding could swap them."""
    metadata = golden(name).metadata
    gaps = [metadata[gap] for gap in ("boundary_gap", "order_gap") if metadata[gap] is not None]
    assert min(gaps) > 2e-5
    assert set(metadata["experts_used"]) == {model(name).config.moe.num_experts}


@pytest.mark.parametrize(
    ("name", "changes"),
    [(name, changes) for name, rows in CONFIGURATIONS.items() for changes in rows],
    ids=str,
)
def test_a_misread_configuration_is_noticed(name, changes, tmp_path):
    assert logit_difference(misread(name, changes, tmp_path), name) > 2 * TOLERANCE


def misread(name: str, changes: dict[str, Any], folder: Path) -> Decoder:
    """The model of the same weights under another config.json."""
    for file in checkpoint_folder(name).glob("*.safetensors*"):
        (folder / file.name).symlink_to(file)
    config = json.loads((checkpoint_folder(name) / "config.json").read_text(encoding="utf-8"))
    for path, value in changes.items():
        *outer, last = path.split(".")
        place = config[outer[0]] if outer else config
        assert place.get(last, ...) != value, "this is no change"
        place[last] = value
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return load_model(folder)


def logit_difference(wrong: Decoder, name: str) -> float:
    case = golden(name).cases["length-33"]
    logits = wrong.forward(case.token_ids).logits[:, case.positions]
    return float(np.abs(logits - case.logits).max())


def without_attention_part(part):
    def change(layer):
        return replace(layer, attention=replace(layer.attention, **{part: None}))

    return change


def without_moe_part(part):
    def change(layer):
        return (
            layer if layer.moe is None else replace(layer, moe=replace(layer.moe, **{part: None}))
        )

    return change


def without_shared_gate(layer):
    moe = layer.moe
    return replace(layer, moe=replace(moe, shared=replace(moe.shared, gate=None)))


def without_expert_biases(layer):
    experts = [replace(expert, bias=None) for expert in layer.moe.experts]
    return replace(layer, moe=replace(layer.moe, experts=experts))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("qwen2-base", without_shared_gate),
        ("qwen2-base", without_moe_part("shared")),
        ("qwen3-base", without_attention_part("q_norm")),
        ("olmoe-base", without_attention_part("k_norm")),
        ("deepseek-v2-lite", without_moe_part("shared")),
        ("deepseek-v3-base", without_moe_part("correction")),
        ("gpt-oss-base", without_moe_part("router_bias")),
        ("gpt-oss-base", without_attention_part("sinks")),
        ("gpt-oss-base", without_expert_biases),
    ],
)
def test_weights_that_are_not_used_are_noticed(name, change):
    right = model(name)
    layers = [change(layer) for layer in right.weights.layers]
    wrong = replace(right, weights=replace(right.weights, layers=layers))
    assert logit_difference(wrong, name) > 100 * TOLERANCE


def test_a_wrong_routing_rule_is_noticed():
    right = model("mixtral-base")
    moe = replace(right.config.moe, rule=RoutingRule(renormalize=False))
    wrong = replace(right, config=replace(right.config, moe=moe))
    assert logit_difference(wrong, "mixtral-base") > 100 * TOLERANCE


def test_the_correction_changes_choices():
    """Else the files of DeepSeek-V3 would not show which scores experts are chosen by."""
    name = "deepseek-v3-base"
    case = golden(name).cases["length-33"]
    inputs = model(name).forward(case.token_ids, trace=True).moe_inputs[0]
    moe = model(name).weights.layers[1].moe
    rule = model(name).config.moe.rule
    plain = route(inputs, moe.router, case.topk_ids.shape[-1], rule).topk_ids
    differing = np.count_nonzero(np.sort(plain) != np.sort(case.topk_ids[0, 0]))
    assert differing > 10


def test_a_changed_checkpoint_is_noticed(tmp_path):
    name = "mixtral-base"
    folder = shutil.copytree(checkpoint_folder(name), tmp_path / name)
    moved = replace(golden(name), checkpoint=folder)
    assert changed_files(moved) == []
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x00")
    (folder / "config.json").unlink()
    assert changed_files(moved) == ["config.json", "model.safetensors"]
    with pytest.raises(pytest.fail.Exception, match="Make it again: python -m"):
        check_checkpoint(name, moved)
