"""The families: layouts that must mean the same, reading piece by piece, and refusals.

Their arithmetic is held against transformers in tests/reference/test_against_transformers.py.
"""

import json
import re
from collections import defaultdict

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from colibri_lab.errors import FormatError, ModelError
from colibri_lab.models import load_config, load_model, open_checkpoint
from colibri_lab.models.checkpoint import FAMILIES
from colibri_lab.models.reader import mxfp4_parts
from tests.golden.reading import checkpoint_folder

# One a family, its experts apart where it has that.
EXAMPLES = {
    "MixtralForCausalLM": "mixtral-sharded",
    "Qwen2MoeForCausalLM": "qwen2-sparse-step",
    "Qwen3MoeForCausalLM": "qwen3-dense-layers",
    "OlmoeForCausalLM": "olmoe-mqa-clip",
    "DeepseekForCausalLM": "deepseek-v1-frequency",
    "DeepseekV2ForCausalLM": "deepseek-v2-groups",
    "DeepseekV3ForCausalLM": "deepseek-v3-base",
    "GptOssForCausalLM": "gpt-oss-base",
}
IDS = np.arange(24).reshape(2, 12)


def test_the_documented_example_is_the_family(repository):
    page = (repository / "docs" / "add-a-model.md").read_text(encoding="utf-8")
    source = (repository / "colibri_lab" / "models" / "olmoe.py").read_text(encoding="utf-8")
    assert f"```python\n{source}```" in page


def tensors_of(name):
    tensors = {}
    for file in checkpoint_folder(name).glob("*.safetensors"):
        tensors |= load_file(file)
    return tensors


def rewrite(name, folder, tensors, **changes):
    """The checkpoint with other tensors, and with changed or removed (...) fields."""
    config = json.loads((checkpoint_folder(name) / "config.json").read_text())
    config = {key: value for key, value in {**config, **changes}.items() if value is not ...}
    (folder / "config.json").write_text(json.dumps(config))
    save_file({key: np.ascontiguousarray(t) for key, t in tensors.items()},
              folder / "model.safetensors")  # fmt: skip
    return folder


def logits(folder, **options):
    return load_model(folder, **options).forward(IDS).logits


def test_every_family_has_an_example():
    assert set(EXAMPLES) == set(FAMILIES)
    for architecture, name in EXAMPLES.items():
        with open_checkpoint(checkpoint_folder(name)) as checkpoint:
            assert checkpoint.family is FAMILIES[architecture]


PARTS = {"w1": "gate", "w3": "up", "w2": "down"}
EXPERT = re.compile(r"(.*)\.experts\.(\d+)\.(w1|w2|w3|gate_proj|up_proj|down_proj)\.weight")


def fused(tensors):
    """Experts one by one -> gate_up_proj [E, 2I, H] and down_proj [E, H, I], as transformers 5."""
    others, experts = {}, defaultdict(lambda: defaultdict(dict))
    for name, tensor in tensors.items():
        match = EXPERT.fullmatch(name)
        if match is None:
            others[name.replace("block_sparse_moe", "mlp")] = tensor
        else:
            prefix = match[1].replace("block_sparse_moe", "mlp") + ".experts"
            part = PARTS.get(match[3], match[3].removesuffix("_proj"))
            experts[prefix][part][int(match[2])] = tensor
    for prefix, parts in experts.items():
        gate, up, down = (
            np.stack([parts[part][index] for index in sorted(parts[part])])
            for part in ("gate", "up", "down")
        )
        others[f"{prefix}.gate_up_proj"] = np.concatenate([gate, up], axis=1)
        others[f"{prefix}.down_proj"] = down
    return others


@pytest.mark.parametrize("name", [n for n in EXAMPLES.values() if not n.startswith("gpt-oss")])
def test_fused_experts_mean_the_same(name, tmp_path):
    tensors = tensors_of(name)
    rewritten = fused(tensors)
    assert len(rewritten) < len(tensors)
    folder = rewrite(name, tmp_path, rewritten)
    assert np.array_equal(logits(folder), logits(checkpoint_folder(name)))
    with open_checkpoint(folder) as one, open_checkpoint(checkpoint_folder(name)) as other:
        assert one.expert_bytes(0) == other.expert_bytes(0)


@pytest.mark.parametrize("name", [*EXAMPLES.values(), "gpt-oss-mxfp4", "deepseek-v3-fused"])
def test_reading_at_each_use_changes_nothing(name):
    folder = checkpoint_folder(name)
    assert np.array_equal(logits(folder, resident=False), logits(folder))


MXFP4 = "gpt-oss-mxfp4"


def dequantised(tensors):
    """MXFP4 experts as transformers writes them plain: transposed, in float32."""
    plain = {n: t for n, t in tensors.items() if not n.endswith(("_blocks", "_scales"))}
    for name in [name for name in tensors if name.endswith("_blocks")]:
        blocks, scales = tensors[name], tensors[name.replace("_blocks", "_scales")]
        codes = np.stack([blocks & 15, blocks >> 4], axis=-1).view(ml_dtypes.float4_e2m1fn)
        factors = scales.view(ml_dtypes.float8_e8m0fnu).astype(np.float32)
        values = codes.astype(np.float32) * factors[..., None, None]
        matrices = values.reshape(*scales.shape[:-1], -1)
        plain[name.removesuffix("_blocks")] = matrices.swapaxes(1, 2)
    return plain


def test_mxfp4_equals_its_dequantised_twin(tmp_path):
    twin = rewrite(MXFP4, tmp_path, dequantised(tensors_of(MXFP4)), quantization_config=...)
    # Not bit for bit: the arrays' layouts differ, and with them the order in which BLAS may sum.
    assert logits(twin) == pytest.approx(logits(checkpoint_folder(MXFP4)), rel=0, abs=1e-12)


def test_bytes_of_an_expert_in_mxfp4():
    with open_checkpoint(checkpoint_folder(MXFP4)) as checkpoint:
        hidden, inner = 32, 64
        packed = 3 * hidden * inner * 17 // 32  # 16 bytes of codes and one of scale, for 32 values
        biases = 2 * (2 * inner + hidden)  # bfloat16
        assert checkpoint.expert_bytes(0) == packed + biases


GATE_UP = "model.layers.1.mlp.experts.gate_up_proj"


def nan_scale(tensors):
    tensors[f"{GATE_UP}_scales"][2, 3, 0] = 255


def no_scales(tensors):
    del tensors[f"{GATE_UP}_scales"]


def signed_blocks(tensors):
    tensors[f"{GATE_UP}_blocks"] = tensors[f"{GATE_UP}_blocks"].view(np.int8)


def float_scales(tensors):
    tensors[f"{GATE_UP}_scales"] = tensors[f"{GATE_UP}_scales"].astype(np.float32)


def blocks_in_place_of_a_norm(tensors):
    tensors["model.norm.weight"] = np.zeros(32, np.uint8)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (nan_scale, f"{GATE_UP} has values that are not finite"),
        (no_scales, f"{GATE_UP}_scales is missing"),
        (signed_blocks, "U8"),
        (float_scales, "U8"),
        (blocks_in_place_of_a_norm, "F32 or F16 or BF16"),
    ],
)
def test_bad_mxfp4(spoil, words, tmp_path):
    tensors = tensors_of(MXFP4)
    spoil(tensors)
    with pytest.raises(FormatError, match=words):
        load_model(rewrite(MXFP4, tmp_path, tensors))


def test_mxfp4_needs_whole_blocks():
    assert mxfp4_parts("x", (2, 3, 64)) == {"x_blocks": (2, 3, 2, 16), "x_scales": (2, 3, 2)}
    with pytest.raises(ModelError, match="x does not divide into blocks"):
        mxfp4_parts("x", (2, 3, 40))


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("qwen2-base", {"mlp_only_layers": [0, 1]}, "no layer has experts"),
        ("qwen2-layer-types", {"layer_types": ["full_attention"]}, "layer_types"),
        ("gpt-oss-layer-types", {"layer_types": ["chunked_attention"] * 3}, "layer_types"),
        ("gpt-oss-layer-types", {"layer_types": "sliding_attention"}, "layer_types"),
        ("qwen3-base", {"intermediate_size": None, "mlp_only_layers": [0]}, "intermediate_size"),
        ("deepseek-v1-base", {"scoring_func": "sigmoid"}, "scoring_func"),
        ("deepseek-v2-lite", {"mlp_bias": True}, "mlp_bias"),
        ("deepseek-v2-lite", {"norm_topk_prob": True}, "norm_topk_prob"),
        ("deepseek-v2-lite", {"topk_method": "noaux_tc"}, "topk_method"),
        ("deepseek-v3-base", {"scoring_func": "softmax"}, "scoring_func"),
        ("deepseek-v3-base", {"n_group": 3}, "do not divide into groups"),
        ("deepseek-v3-base", {"topk_group": 1, "num_experts_per_tok": 3}, "top_k is over"),
    ],
)
def test_configurations_that_are_refused(name, changes, words, tmp_path):
    folder = rewrite(name, tmp_path, tensors_of(name), **changes)
    with pytest.raises(ModelError, match=words) as caught:
        load_model(folder)
    assert caught.value.path == str(folder / "config.json")


@pytest.mark.parametrize(
    ("name", "moe_layers", "windows"),
    [
        ("qwen2-sparse-step", (3, 5), (None,) * 6),
        ("qwen2-window", (0, 1, 2, 3), (6, None, 6, None)),
        ("qwen3-dense-layers", (1, 5), (None,) * 6),
        ("deepseek-v1-frequency", (2, 4), (None,) * 5),
        ("deepseek-v2-bias", (0, 1), (None, None)),
        ("gpt-oss-base", (0, 1), (6, None)),
        ("gpt-oss-layer-types", (0, 1, 2), (None, 9, 9)),
    ],
)
def test_which_layers_have_experts_and_windows(name, moe_layers, windows):
    config = load_config(checkpoint_folder(name))
    assert config.moe_layers == moe_layers
    assert config.sliding_windows == windows
