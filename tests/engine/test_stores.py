"""The engine on containers and on every family, against the reference on the checkpoint."""

from pathlib import Path

import numpy as np
import pytest

from colibri_lab.engine import Engine
from colibri_lab.errors import FormatError
from colibri_lab.models import Conversion, convert, load_model, open_checkpoint
from tests.support import write_checkpoint

GOLDEN = Path(__file__).parents[1] / "golden"
FAMILIES = [
    "deepseek-v1-base",
    "deepseek-v2-groups",
    "deepseek-v3-base",
    "gpt-oss-base",
    "gpt-oss-mxfp4",
    "mixtral-base",
    "olmoe-clip",
    "qwen2-base",
    "qwen3-dense-layers",
]


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_generates_the_same(name):
    model = load_model(GOLDEN / name)
    prompt = [3, 1, 4, 1, 5]
    with Engine.open(GOLDEN / name, expert_cache_size=2, stream_count=2) as engine:
        logits = model.forward(prompt, moe=engine.run_layer).logits
        assert engine.num_layers == model.config.num_moe_layers
    assert logits == pytest.approx(model.forward(prompt).logits, abs=1e-4)


def test_experts_from_a_container(tmp_path):
    folder = tmp_path / "model"
    write_checkpoint(folder)
    model = load_model(folder)
    prompt = list(range(12))
    wanted = model.generate(prompt, 8).token_ids
    for name in ("a.colibri", "a.cbi"):
        out = convert(folder, tmp_path / name)
        with Engine.open(folder, experts=out) as engine:
            assert model.generate(prompt, 8, moe=engine.run_layer).token_ids == wanted
            assert engine.stats.bytes_read.max() % (3 * 16 * 24 * 4) == 0


def test_folded_biases_come_back(tmp_path):
    folder = GOLDEN / "gpt-oss-base"
    out = convert(folder, tmp_path / "folded.colibri", Conversion(fold_bias=True))
    model = load_model(folder)
    prompt = [3, 1, 4, 1, 5]
    with Engine.open(folder, experts=out) as engine:
        logits = model.forward(prompt, moe=engine.run_layer).logits
    assert logits == pytest.approx(model.forward(prompt).logits, abs=1e-4)


@pytest.mark.parametrize("name", ["a.colibri", "a.cbi"])
def test_a_container_alone_routes_as_mixtral_does(tmp_path, name):
    folder = tmp_path / "model"
    write_checkpoint(folder)
    out = convert(folder, tmp_path / name)
    x = np.random.default_rng(0).normal(size=(2, 9, 16)).astype(np.float32)
    with Engine.open(folder) as checkpoint, Engine.open(out) as container:
        for engine in (checkpoint, container):
            engine.set_input(x, [9])
            engine.infer()
        assert container.get_output() == pytest.approx(checkpoint.get_output(), abs=1e-6)


def test_int8_experts_are_near(tmp_path):
    folder = tmp_path / "model"
    write_checkpoint(folder)
    out = convert(folder, tmp_path / "a.cbi", Conversion(quantize="int8", scale="row"))
    x = np.random.default_rng(0).normal(size=(2, 9, 16)).astype(np.float32)
    with Engine.open(folder) as exact, Engine.open(folder, experts=out) as near:
        for engine in (exact, near):
            engine.set_input(x, [9])
            engine.infer()
        error = np.linalg.norm(near.get_output() - exact.get_output())
        assert 0 < error / np.linalg.norm(exact.get_output()) < 0.05
        assert near.stats.bytes_read.max() % (3 * 16 * 24) == 0


def test_a_container_of_another_model_is_refused(tmp_path):
    write_checkpoint(tmp_path / "one")
    write_checkpoint(tmp_path / "two", num_local_experts=8)
    out = convert(tmp_path / "two", tmp_path / "two.cbi")
    with pytest.raises(FormatError, match="do not belong"):
        Engine.open(tmp_path / "one", experts=out)


def test_neither_folder_nor_container(tmp_path):
    (tmp_path / "x").write_bytes(b"nonsense")
    with pytest.raises(FormatError, match="no expert container"):
        Engine.open(tmp_path / "x")
    with pytest.raises(FormatError, match="no checkpoint"):
        Engine.open(tmp_path / "nowhere")


def test_checkpoint_closes_after_a_failed_open(tmp_path):
    write_checkpoint(tmp_path / "one")
    with pytest.raises(FormatError):
        Engine.open(tmp_path / "one", experts=tmp_path / "none.cbi")
    with open_checkpoint(tmp_path / "one") as checkpoint:
        assert checkpoint.config.num_layers == 2
