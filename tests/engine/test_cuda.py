"""The CUDA engine against the reference: outputs near, choices the same, whatever the settings."""

import numpy as np
import pytest

from colibri_lab.capacity import Capacity
from colibri_lab.engine.cuda.memory import check_device_memory, device_terms
from colibri_lab.errors import DeviceUnavailable, InputError
from colibri_lab.models import load_model
from colibri_lab.reference import moe_layer
from tests.support import write_checkpoint

pytest.importorskip("pycuda", reason="PyCUDA is not installed: make test builds it")

from colibri_lab.engine import Engine
from colibri_lab.engine.cuda import CudaEngine

TOKENS = 21
NEAR = {"float32": 2e-5, "float16": 2e-2}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    write_checkpoint(path)
    return path


@pytest.fixture(scope="module")
def model(folder):
    return load_model(folder)


@pytest.fixture(scope="module")
def inputs(model):
    shape = (model.config.num_moe_layers, TOKENS, model.config.moe.hidden_size)
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def expected(model, inputs, top_k, capacity):
    layers = [layer.moe for layer in model.weights.layers if layer.moe is not None]
    return [
        moe_layer(x, weights, top_k, Capacity.parse(capacity), model.config.moe.rule)
        for x, weights in zip(inputs, layers, strict=True)
    ]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("capacity", ["none", "hard:1.0", "soft:1.25"])
@pytest.mark.parametrize(("streams", "slots"), [(1, 4), (2, 1), (3, 2)])
def test_layers_are_the_references(folder, model, inputs, dtype, capacity, streams, slots):
    options = {"expert_cache_size": slots, "stream_count": streams, "dtype": dtype}
    with CudaEngine.open(folder, capacity=Capacity.parse(capacity), **options) as engine:
        engine.set_input(inputs, [TOKENS])
        engine.infer()
        found = engine.get_output().copy()
        truth = expected(model, inputs, engine.top_k, capacity)
        for layer, output in enumerate(truth):
            assert np.array_equal(engine.assigned(layer).topk_ids, output.assigned.topk_ids)
            scale = np.abs(output.hidden_states).max()
            assert np.abs(found[layer] - output.hidden_states).max() <= NEAR[dtype] * scale
        assert engine.stats.tokens.sum() == sum((o.assigned.topk_ids >= 0).sum() for o in truth)


def test_it_generates_what_the_cpu_generates(folder, model):
    with CudaEngine.open(folder, max_batch_size=1) as cuda, Engine.open(folder) as cpu:
        new = [
            model.generate([1, 2, 3], 6, moe=each.run_layer, routed=each.assigned).token_ids
            for each in (cuda, cpu)
        ]
    assert new[0] == new[1] == model.generate([1, 2, 3], 6).token_ids


def test_misses_are_those_of_the_cpu_engine(folder, inputs):
    """One stream, token by token: the same policy sees the same look-ups."""
    counts = []
    for opener in (CudaEngine.open, Engine.open):
        with opener(folder, expert_cache_size=2, cache_policy="lru") as engine:
            for token in range(TOKENS):
                engine.set_input(inputs[:, token : token + 1].copy(), [1])
                engine.infer()
            counts.append((engine.stats.hits.sum(), engine.stats.misses.sum()))
    assert counts[0] == counts[1]


@pytest.mark.parametrize("tokens", [1, 2, 5])
def test_fewer_tokens_than_streams_and_none_left_over(folder, model, inputs, tokens):
    with CudaEngine.open(folder, stream_count=4) as engine:
        part = np.ascontiguousarray(inputs[:, :tokens])
        engine.set_input(part, [tokens])
        engine.infer()
        for found, truth in zip(
            engine.get_output(), expected(model, part, engine.top_k, "none"), strict=True
        ):
            assert found == pytest.approx(truth.hidden_states, rel=1e-3, abs=1e-4)


def test_a_device_that_is_too_small(model):
    terms = device_terms(model.config.moe, 2, 4, 128, 2, 1, 4)
    with pytest.raises(
        DeviceUnavailable, match=r"does not fit[\s\S]*expert slots L\*N\*3\*I\*H\*4"
    ):
        check_device_memory(terms, sum(terms.values()) - 1, "a small GPU")
    check_device_memory(terms, sum(terms.values()), "a large one")


def test_what_the_terms_add_up_to_is_what_is_allocated(folder):
    with CudaEngine.open(folder, stream_count=2) as engine:
        free_within, _ = engine._device.driver.mem_get_info()
        total = sum(engine.memory_terms.values())
        engine._pool.free()
        free_after, _ = engine._device.driver.mem_get_info()
        # Allocations are rounded up, and the rest is a few hundred bytes of tables.
        assert total <= free_after - free_within <= 1.1 * total + 64 * 512


def test_bad_arguments(folder):
    with pytest.raises(InputError, match="dtype is not known"):
        CudaEngine.open(folder, dtype="int8")


@pytest.mark.parametrize("seed", range(6))
def test_nothing_is_read_before_it_is_there(folder, model, inputs, seed):
    """The emulated driver runs queued work as late as it may, or in an order drawn by the seed:
    a wait that is missing between streams, copies and slots would show."""
    from colibri_lab import simt

    if not simt.enable():
        pytest.skip("a real GPU chooses its own order")
    simt.set_seed(seed)
    try:
        with CudaEngine.open(folder, stream_count=3, expert_cache_size=1) as engine:
            for _ in range(2):
                engine.set_input(inputs, [TOKENS])
                engine.infer()
                truth = expected(model, inputs, engine.top_k, "none")
                for found, output in zip(engine.get_output(), truth, strict=True):
                    assert found == pytest.approx(output.hidden_states, rel=1e-3, abs=1e-4)
    finally:
        simt.set_seed(0)
