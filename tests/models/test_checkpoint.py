"""Checkpoints: what is read, and what is said of those that cannot be."""

import json
import os

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from colibri_lab.errors import ColibriError, FormatError, ModelError
from colibri_lab.models import load_config, load_model, open_checkpoint
from tests.support import CONFIG, write_checkpoint, write_sharded


@pytest.fixture
def folder(tmp_path):
    write_checkpoint(tmp_path)
    return tmp_path


def change_config(folder, **changes):
    file = folder / "config.json"
    config = {**json.loads(file.read_text()), **changes}
    file.write_text(json.dumps({name: v for name, v in config.items() if v is not ...}))


def change_tensors(folder, **changes):
    file = folder / "model.safetensors"
    tensors = {**load_file(file), **changes}
    save_file({name: tensor for name, tensor in tensors.items() if tensor is not None}, file)


GATE = "model.layers.1.block_sparse_moe.gate.weight"
W1 = "model.layers.0.block_sparse_moe.experts.3.w1.weight"


def test_a_shard_that_shrinks_is_an_error_and_no_crash(tmp_path):
    write_sharded(tmp_path)
    model = load_model(tmp_path, resident=False)
    file = tmp_path / "b.safetensors"
    whole = file.read_bytes()
    os.truncate(file, 100)
    with pytest.raises(FormatError, match="has shrunk") as caught:
        model.forward([1, 2, 3])
    assert caught.value.path == str(file)
    with file.open("r+b") as again:  # the same file, whole once more
        again.write(whole)
    before = model.forward([1, 2, 3]).logits
    file.unlink()  # a mapped file outlives its name
    assert np.array_equal(model.forward([1, 2, 3]).logits, before)
    file.write_bytes(b"another file of that name")
    assert np.array_equal(model.forward([1, 2, 3]).logits, before)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_every_stored_dtype_is_read_exactly(tmp_path, dtype):
    tensors = write_checkpoint(tmp_path, dtype)
    with open_checkpoint(tmp_path) as checkpoint:
        expert = checkpoint.read_expert(0, 3)
        assert np.array_equal(expert.gate, tensors[W1].astype(np.float32))
        assert np.array_equal(checkpoint.router(1).weight, tensors[GATE].astype(np.float32))
        assert checkpoint.moe_layer(1).router.flags.c_contiguous
        assert checkpoint.expert_bytes(0) == 3 * 16 * 24 * np.dtype(dtype).itemsize


def test_shards_equal_one_file(tmp_path):
    write_checkpoint(tmp_path / "one")
    write_sharded(tmp_path / "two")
    ids = np.arange(10)
    one, two = (load_model(tmp_path / name).forward(ids).logits for name in ("one", "two"))
    assert np.array_equal(one, two)


def test_tied_embeddings_need_no_head(tmp_path):
    write_checkpoint(tmp_path, tie_word_embeddings=True)
    change_tensors(tmp_path, **{"lm_head.weight": None})
    model = load_model(tmp_path)
    assert model.weights.lm_head is model.weights.embedding


def test_fingerprint_follows_the_weights(folder):
    def fingerprint():
        with open_checkpoint(folder) as checkpoint:
            return checkpoint.fingerprint

    before = fingerprint()
    assert fingerprint() == before
    write_checkpoint(folder, seed=1)
    assert fingerprint() != before


def test_config_spellings(folder):
    change_config(
        folder, rope_theta=..., rope_parameters={"rope_type": "default", "rope_theta": 5e4}
    )
    second = load_model(folder).weights.layers[0].attention.rope.inv_freq[1]
    assert second == pytest.approx(5e4**-0.5)
    change_config(folder, eos_token_id=[1, 2], sliding_window=8, head_dim=None)
    config = load_config(folder)
    assert (config.eos_token_ids, config.sliding_windows) == ((1, 2), (8, 8))
    assert config.head_dim == 4


def missing_folder(folder):
    return folder / "nowhere"


def a_file(folder):
    return folder / "config.json"


def no_config(folder):
    (folder / "config.json").unlink()


def config_is_not_json(folder):
    (folder / "config.json").write_text("{")


def config_is_a_list(folder):
    (folder / "config.json").write_text("[]")


def config_is_not_utf8(folder):
    (folder / "config.json").write_bytes(b'{"a": "\xff"}')


def no_weights(folder):
    (folder / "model.safetensors").unlink()


def pickled_weights(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def half_written(folder):
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def half_a_header(folder):
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:100])


def empty_weights(folder):
    (folder / "model.safetensors").write_bytes(b"")


def unknown_architecture(folder):
    change_config(folder, architectures=["GPT2LMHeadModel"])


def no_architecture(folder):
    change_config(folder, architectures=...)


def architectures_of_a_wrong_type(folder):
    change_config(folder, architectures=7)


def missing_tensor(folder):
    change_tensors(folder, **{W1: None})


def wrong_shape(folder):
    change_tensors(folder, **{W1: np.zeros((24, 15), np.float32)})


def wrong_dtype(folder):
    change_tensors(folder, **{W1: np.zeros((24, 16), np.int32)})


def a_nan(folder):
    bad = np.zeros((24, 16), np.float32)
    bad[3, 4] = np.nan
    change_tensors(folder, **{W1: bad})


def top_k_over_num_experts(folder):
    change_config(folder, num_experts_per_tok=5)


def top_k_zero(folder):
    change_config(folder, num_experts_per_tok=0)


def size_of_a_wrong_type(folder):
    change_config(folder, hidden_size="wide")


def size_missing(folder):
    change_config(folder, num_local_experts=...)


def negative_layers(folder):
    change_config(folder, num_hidden_layers=-1)


def zero_heads(folder):
    change_config(folder, num_attention_heads=0)


def no_heads_for_the_groups(folder):
    change_config(folder, num_key_value_heads=3)


def unknown_rope(folder):
    change_config(folder, rope_scaling={"rope_type": "longrope", "factor": 4.0})


def yarn_without_a_factor(folder):
    change_config(folder, rope_scaling={"rope_type": "yarn", "factor": "four"})


def a_part_of_the_head_turns(folder):
    change_config(folder, partial_rotary_factor=0.5)


def rope_of_a_wrong_type(folder):
    change_config(folder, rope_parameters=[1])


def config_is_nested_too_deep(folder):
    (folder / "config.json").write_text("[" * 100_000)


def negative_eps(folder):
    change_config(folder, rms_norm_eps=-1.0)


def eps_is_nan(folder):
    change_config(folder, rms_norm_eps=float("nan"))


def theta_zero(folder):
    change_config(folder, rope_parameters={"rope_type": "default", "rope_theta": 0})


def yarn_by_nothing(folder):
    change_config(folder, rope_scaling={"rope_type": "yarn", "factor": 0})


def other_activation(folder):
    change_config(folder, hidden_act="gelu")


def corrupt_tokenizer(folder):
    (folder / "tokenizer.json").write_text("{}")


BAD = {
    missing_folder: "no checkpoint here",
    a_file: "no checkpoint here",
    no_config: "no checkpoint here",
    config_is_not_json: "config.json cannot be read",
    config_is_a_list: "config.json cannot be read",
    config_is_not_utf8: "config.json cannot be read",
    no_weights: "no safetensors weights",
    pickled_weights: "never read",
    half_written: "half-written",
    half_a_header: "half-written",
    empty_weights: "half-written",
    unknown_architecture: "GPT2LMHeadModel",
    no_architecture: "architecture is not known",
    architectures_of_a_wrong_type: "config.json",
    missing_tensor: W1,
    wrong_shape: W1,
    wrong_dtype: W1,
    a_nan: W1,
    top_k_over_num_experts: "top_k is out of range",
    top_k_zero: "top_k is out of range",
    size_of_a_wrong_type: "hidden_size",
    size_missing: "num_local_experts",
    negative_layers: "num_layers must be positive",
    zero_heads: "num_heads must be positive",
    no_heads_for_the_groups: "multiple of num_kv_heads",
    unknown_rope: "longrope",
    yarn_without_a_factor: "factor",
    a_part_of_the_head_turns: "partial_rotary_factor",
    rope_of_a_wrong_type: "config.json",
    config_is_nested_too_deep: "config.json cannot be read",
    negative_eps: '"rms_norm_eps" is out of range',
    eps_is_nan: '"rms_norm_eps" is out of range',
    theta_zero: '"rope_theta" is out of range',
    yarn_by_nothing: '"factor" is out of range',
    other_activation: "gelu",
    corrupt_tokenizer: "tokenizer cannot be read",
}


@pytest.mark.parametrize("spoil", BAD, ids=lambda spoil: spoil.__name__)
def test_bad_checkpoint(folder, spoil):
    path = spoil(folder) or folder
    with pytest.raises(FormatError) as caught:
        load_model(path)
    assert BAD[spoil] in str(caught.value)
    assert caught.value.path is not None
    assert str(folder) in caught.value.path


def index_is_not_json(folder):
    (folder / "model.safetensors.index.json").write_text("{")


def index_is_nested_too_deep(folder):
    (folder / "model.safetensors.index.json").write_text("[" * 100_000)


def index_without_a_map(folder):
    (folder / "model.safetensors.index.json").write_text("{}")


def shard_absent(folder):
    (folder / "b.safetensors").unlink()


def shard_outside(folder):
    file = folder / "model.safetensors.index.json"
    file.write_text(file.read_text().replace("b.safetensors", "../b.safetensors"))


def tensor_not_in_its_shard(folder):
    file = folder / "model.safetensors.index.json"
    index = json.loads(file.read_text())
    index["weight_map"][W1] = {"a.safetensors": "b.safetensors", "b.safetensors": "a.safetensors"}[
        index["weight_map"][W1]
    ]
    file.write_text(json.dumps(index))


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (index_is_not_json, "index of the shards cannot be read"),
        (index_is_nested_too_deep, "index of the shards cannot be read"),
        (index_without_a_map, "index of the shards cannot be read"),
        (shard_absent, "b.safetensors"),
        (shard_outside, "outside its folder"),
        (tensor_not_in_its_shard, W1),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_bad_shards(tmp_path, spoil, words):
    write_sharded(tmp_path)
    spoil(tmp_path)
    with pytest.raises(FormatError) as caught:
        load_model(tmp_path)
    assert words in str(caught.value)


def test_unknown_architecture_lists_the_known(folder):
    unknown_architecture(folder)
    with pytest.raises(ModelError) as caught:
        load_model(folder)
    assert "MixtralForCausalLM" in str(caught.value.expected)


def test_errors_as_json(folder):
    wrong_shape(folder)
    with pytest.raises(ColibriError) as caught:
        load_model(folder)
    error = json.loads(json.dumps(caught.value.as_dict()))
    assert error["type"] == "FormatError"
    assert error["expected"] == "[24, 16]"
    assert error["found"] == "[24, 15]"


def test_config_is_what_the_file_says(folder):
    config = load_config(folder)
    assert config.hidden_size == CONFIG["hidden_size"]
    assert config.moe.num_experts == CONFIG["num_local_experts"]
    assert config.sliding_windows == (None, None)
    assert config.moe_layers == (0, 1)
