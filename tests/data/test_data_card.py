"""The shipped sample model and texts are those of the data card, whole and usable."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file
from tokenizers import Tokenizer

DATA = Path(__file__).parents[2] / "data"
MODEL = DATA / "tiny-moe"
DOMAINS = ("c", "chinese", "html", "json", "math", "prose", "python", "rst")
ROW = re.compile(r"^\| `([^`]+)` \| (\d+) \| `([0-9a-f]{64})` \|$", re.MULTILINE)
LAYERS, EXPERTS, HIDDEN, INNER, VOCABULARY = 4, 16, 128, 192, 2048


def shipped_files() -> list[Path]:
    folders = (MODEL, DATA / "heldout", DATA / "licenses")
    return sorted(path for folder in folders for path in folder.iterdir())


def expected_shapes() -> dict[str, tuple[int, ...]]:
    shapes = {"model.embed_tokens.weight": (VOCABULARY, HIDDEN), "model.norm.weight": (HIDDEN,)}
    for layer in range(LAYERS):
        block = f"model.layers.{layer}"
        for name, rows in {"q_proj": 128, "k_proj": 64, "v_proj": 64, "o_proj": 128}.items():
            shapes[f"{block}.self_attn.{name}.weight"] = (rows, HIDDEN)
        for name in ("input_layernorm", "post_attention_layernorm"):
            shapes[f"{block}.{name}.weight"] = (HIDDEN,)
        shapes[f"{block}.block_sparse_moe.gate.weight"] = (EXPERTS, HIDDEN)
        for expert in range(EXPERTS):
            prefix = f"{block}.block_sparse_moe.experts.{expert}"
            shapes[f"{prefix}.w1.weight"] = shapes[f"{prefix}.w3.weight"] = (INNER, HIDDEN)
            shapes[f"{prefix}.w2.weight"] = (HIDDEN, INNER)
    return shapes


@pytest.fixture(scope="module")
def weights() -> dict[str, np.ndarray]:
    return load_file(MODEL / "model.safetensors")


def test_the_card_lists_every_file_with_its_size_and_checksum():
    card = (DATA / "README.md").read_text(encoding="utf-8")
    listed = {name: (int(size), digest) for name, size, digest in ROW.findall(card)}
    found = {
        path.relative_to(DATA).as_posix(): (
            path.stat().st_size,
            sha256(path.read_bytes()).hexdigest(),
        )
        for path in shipped_files()
    }
    assert listed == found


@pytest.mark.parametrize("path", shipped_files(), ids=lambda path: path.name)
def test_everyone_may_read_the_file(path):
    assert path.stat().st_mode & 0o444 == 0o444


def test_the_weights_are_small_enough_to_ship():
    assert (MODEL / "model.safetensors").stat().st_size <= 12_000_000


def test_the_weights_have_the_published_names_and_shapes(weights):
    assert {name: weight.shape for name, weight in weights.items()} == expected_shapes()
    assert {weight.dtype for weight in weights.values()} == {np.dtype(ml_dtypes.bfloat16)}


def test_the_weights_are_finite_and_trained(weights):
    for name, weight in weights.items():
        values = weight.astype(np.float32)
        assert np.isfinite(values).all(), name
        assert values.std() > 1e-3, name  # norms start as all ones, everything else near 0.02


def test_the_config_describes_the_weights():
    config = json.loads((MODEL / "config.json").read_text())
    assert config["architectures"] == ["MixtralForCausalLM"]
    assert config["model_type"] == "mixtral"
    assert config["num_hidden_layers"] == LAYERS
    assert config["num_local_experts"] == EXPERTS
    assert config["num_experts_per_tok"] == 2
    assert (config["hidden_size"], config["intermediate_size"]) == (HIDDEN, INNER)
    assert config["hidden_size"] == config["num_attention_heads"] * config["head_dim"]
    assert config["num_attention_heads"] % config["num_key_value_heads"] == 0
    assert config["tie_word_embeddings"] is True
    assert config["rope_parameters"]["rope_theta"] == config["rope_theta"]
    assert config["torch_dtype"] == "bfloat16"
    assert config["bos_token_id"] == config["eos_token_id"] == 0


@pytest.mark.parametrize("domain", DOMAINS)
def test_a_held_out_text_survives_the_tokenizer(domain):
    text = (DATA / "heldout" / f"{domain}.txt").read_text(encoding="utf-8")
    tokenizer = Tokenizer.from_file(str(MODEL / "tokenizer.json"))
    ids = tokenizer.encode(text).ids
    assert 40_000 <= len(text.encode()) <= 50_000
    assert tokenizer.decode(ids, skip_special_tokens=False) == text
    assert 0 < min(ids) <= max(ids) < VOCABULARY  # 0 is <|endoftext|>
    assert len(ids) < 0.6 * len(text.encode())


def test_the_tokenizer_fits_the_config():
    tokenizer = Tokenizer.from_file(str(MODEL / "tokenizer.json"))
    assert tokenizer.get_vocab_size() == VOCABULARY
    assert tokenizer.token_to_id("<|endoftext|>") == 0


def test_the_held_out_texts_are_all_there():
    assert {path.name for path in (DATA / "heldout").iterdir()} == {f"{d}.txt" for d in DOMAINS}
