"""Conversion: round trips byte for byte, folded biases, and what is refused."""

import json
from dataclasses import replace

import numpy as np
import pytest

from colibri_lab.errors import FormatError, InputError
from colibri_lab.formats.cbi import CbiFile
from colibri_lab.models import load_model, open_checkpoint
from colibri_lab.models.containers import experts_for, fold, open_experts, unfold
from colibri_lab.models.convert import Conversion, convert, read_order
from colibri_lab.reference import Clamp, ExpertBias, ExpertWeights, swiglu
from tests.support import write_checkpoint


@pytest.fixture
def checkpoint(tmp_path):
    folder = tmp_path / "model"
    write_checkpoint(folder)
    return folder


def same_experts(one, two):
    with open_experts(one) as first, open_experts(two) as second:
        assert replace(first.sizes, top_k=0) == replace(second.sizes, top_k=0)
        for layer in range(first.sizes.num_layers):
            assert np.array_equal(first.router(layer), second.router(layer))
            for index in range(first.sizes.num_experts):
                a, b = first.expert(layer, index), second.expert(layer, index)
                for part in ("gate", "up", "down"):
                    assert np.array_equal(getattr(a, part), getattr(b, part))


def test_every_direction_keeps_the_weights(checkpoint, tmp_path):
    colibri, cbi = tmp_path / "a.colibri", tmp_path / "a.cbi"
    convert(checkpoint, colibri)
    convert(checkpoint, cbi)
    same_experts(checkpoint, colibri)
    same_experts(checkpoint, cbi)
    convert(cbi, tmp_path / "b.colibri")
    convert(colibri, tmp_path / "b.cbi")
    assert (tmp_path / "b.colibri").read_bytes() == colibri.read_bytes()
    assert (tmp_path / "b.cbi").read_bytes() == cbi.read_bytes()


def test_float16_checkpoint_survives_float16(tmp_path):
    write_checkpoint(tmp_path / "model", np.float16)
    convert(tmp_path / "model", tmp_path / "half.colibri", Conversion(dtype="float16"))
    same_experts(tmp_path / "model", tmp_path / "half.colibri")


def test_order_moves_slots_and_nothing_else(checkpoint, tmp_path):
    file = tmp_path / "order.json"
    file.write_text("[[1, 3], [0, 2]]")
    convert(checkpoint, tmp_path / "a.cbi", Conversion(order=read_order(file)))
    same_experts(checkpoint, tmp_path / "a.cbi")
    with CbiFile(tmp_path / "a.cbi") as cbi:
        assert cbi.routing_table[1, 3] == 0
        assert cbi.routing_table[0, 2] == 1
        assert cbi.routing_table[0, 0] == 2


def test_progress_counts_experts(checkpoint, tmp_path):
    seen = []
    convert(checkpoint, tmp_path / "a.cbi", progress=lambda *counts: seen.append(counts))
    assert seen == [(done, 8) for done in range(1, 9)]


@pytest.mark.parametrize(
    ("out", "options", "words"),
    [
        ("a.bin", {}, "ending says"),
        ("a.colibri", {"quantize": "int8"}, "--quantize"),
        ("a.colibri", {"align": 64}, "--align"),
        ("a.colibri", {"order": ((0, 0),)}, "--order"),
        ("a.cbi", {"dtype": "float16"}, "float32 or int8"),
        ("a.cbi", {"fold_bias": True}, "no expert biases"),
        ("a.cbi", {"order": ((0, 0), (0, 0))}, "twice"),
        ("a.cbi", {"order": ((9, 0),)}, "not there"),
        ("a.cbi", {"align": 3}, "power of two"),
    ],
)
def test_options_that_do_not_fit(checkpoint, tmp_path, out, options, words):
    with pytest.raises(InputError, match=words):
        convert(checkpoint, tmp_path / out, Conversion(**options))
    assert not (tmp_path / out).exists()


@pytest.mark.parametrize(
    "text",
    [
        "", "{}x", "[1]", "[[1, 2, 3]]", '[["a", 1]]', "[[0.5, 1]]", "[[0, 1.0]]", '[["0", 1]]',
        "[[true, 1]]", "[[0, null]]", pytest.param("[" * 100_000, id="deep"),
    ],
)  # fmt: skip
def test_unreadable_order(tmp_path, text):
    (tmp_path / "order").write_text(text)
    with pytest.raises(InputError, match="cannot be read"):
        read_order(tmp_path / "order")


def test_sources_that_are_none(tmp_path):
    (tmp_path / "x").write_bytes(b"GGUFGGUF")
    with pytest.raises(FormatError, match="no expert container"):
        convert(tmp_path / "x", tmp_path / "a.cbi")
    with pytest.raises(FormatError, match="cannot be opened"):
        convert(tmp_path / "nowhere", tmp_path / "a.cbi")


def biased_expert(clamp, seed=0):
    rng = np.random.default_rng(seed)
    bias = ExpertBias(rng.normal(size=5), rng.normal(size=5), rng.normal(size=8))
    matrices = (rng.normal(size=shape).astype(np.float32) for shape in ((5, 8), (5, 8), (8, 5)))
    return ExpertWeights(*matrices, bias=bias, clamp=clamp)


@pytest.mark.parametrize("clamp", [None, Clamp(limit=7.0, alpha=1.702)])
def test_folded_biases_give_the_same(clamp):
    expert = biased_expert(clamp)
    folded = fold(expert)
    x = np.random.default_rng(1).normal(size=(6, 8))
    with_one = np.hstack([x, np.ones((6, 1))])
    wanted = swiglu(x, expert)
    found = swiglu(with_one, folded)
    assert found[:, :-1] == pytest.approx(wanted, abs=1e-5)
    assert not found[:, -1].any()
    again = unfold(folded)
    assert again.gate.base is not None
    assert again.bias.down == pytest.approx(expert.bias.down, abs=1e-7)


def write_gpt_oss(folder):
    """A tiny gpt-oss checkpoint: experts with biases."""
    from safetensors.numpy import save_file

    rng = np.random.default_rng(0)
    hidden, inner, experts, heads, head_dim, vocabulary = 16, 8, 4, 2, 8, 32
    config = {
        "architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "vocab_size": vocabulary,
        "hidden_size": hidden, "intermediate_size": inner, "num_hidden_layers": 1,
        "num_attention_heads": heads, "num_key_value_heads": 1, "head_dim": head_dim,
        "num_local_experts": experts, "num_experts_per_tok": 2, "max_position_embeddings": 64,
        "sliding_window": 8,
    }  # fmt: skip
    prefix = "model.layers.0"
    shapes = {
        "model.embed_tokens.weight": (vocabulary, hidden), "lm_head.weight": (vocabulary, hidden),
        "model.norm.weight": (hidden,),
        f"{prefix}.input_layernorm.weight": (hidden,),
        f"{prefix}.post_attention_layernorm.weight": (hidden,),
        f"{prefix}.self_attn.sinks": (heads,),
        f"{prefix}.mlp.router.weight": (experts, hidden), f"{prefix}.mlp.router.bias": (experts,),
        f"{prefix}.mlp.experts.gate_up_proj": (experts, hidden, 2 * inner),
        f"{prefix}.mlp.experts.gate_up_proj_bias": (experts, 2 * inner),
        f"{prefix}.mlp.experts.down_proj": (experts, inner, hidden),
        f"{prefix}.mlp.experts.down_proj_bias": (experts, hidden),
    }  # fmt: skip
    for part, rows, columns in (
        ("q", heads * head_dim, hidden), ("k", head_dim, hidden), ("v", head_dim, hidden),
        ("o", hidden, heads * head_dim),
    ):  # fmt: skip
        shapes[f"{prefix}.self_attn.{part}_proj.weight"] = (rows, columns)
        shapes[f"{prefix}.self_attn.{part}_proj.bias"] = (rows,)
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    tensors = {name: rng.normal(0, 0.5, s).astype(np.float32) for name, s in shapes.items()}
    save_file(tensors, folder / "model.safetensors")


def test_biases_are_refused_by_name_and_folded_on_request(tmp_path):
    folder, out = tmp_path / "oss", tmp_path / "oss.colibri"
    write_gpt_oss(folder)
    with pytest.raises(InputError, match="gate_up_proj_bias") as caught:
        convert(folder, out)
    assert "--fold-bias" in caught.value.hint
    assert not out.exists()
    convert(folder, out, Conversion(fold_bias=True))
    with open_checkpoint(folder) as checkpoint, experts_for(checkpoint, out) as experts:
        assert experts.router_bias(0) == pytest.approx(checkpoint.router(0).bias)
        for index in range(4):
            found, wanted = experts.expert(0, index), checkpoint.read_expert(0, index)
            x = np.random.default_rng(2).normal(size=(5, 16))
            assert swiglu(x, found) == pytest.approx(swiglu(x, wanted), abs=1e-5)


def test_experts_of_another_model_are_refused(checkpoint, tmp_path):
    write_checkpoint(tmp_path / "other", intermediate_size=32)
    convert(tmp_path / "other", tmp_path / "other.cbi")
    with (
        open_checkpoint(checkpoint) as opened,
        pytest.raises(FormatError, match="do not belong to this checkpoint"),
    ):
        experts_for(opened, tmp_path / "other.cbi")


def test_reading_as_one_goes_equals_reading_at_once(checkpoint):
    ids = np.arange(12)
    resident, lazy = load_model(checkpoint), load_model(checkpoint, resident=False)
    assert np.array_equal(resident.forward(ids).logits, lazy.forward(ids).logits)
