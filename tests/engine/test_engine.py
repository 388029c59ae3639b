"""The engine against the reference, and what it does with memory."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

from colibri_lab.capacity import Capacity
from colibri_lab.engine import Engine
from colibri_lab.models import load_model
from colibri_lab.reference import moe_layer
from tests.support import write_checkpoint

H, E, L = 16, 4, 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    write_checkpoint(path)
    return path


@pytest.fixture(scope="module")
def model(folder):
    return load_model(folder)


def states(num_tokens, layers=L, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(layers, num_tokens, H)).astype(np.float32)


def expected(model, x, top_k, capacity):
    return [
        moe_layer(x[layer], model.weights.layers[layer].moe, top_k, capacity)
        for layer in range(len(x))
    ]


@given(
    num_tokens=st.sampled_from([0, 1, 2, 7, 33]),
    top_k=st.integers(1, 4),
    policy=st.sampled_from(["none", "hard:1.0", "hard:0.5:weight", "soft:1.0", "soft:0.5:0"]),
    streams=st.integers(1, 4),
    slots=st.integers(1, E),
    seed=st.integers(0, 1000),
)
def test_equals_the_reference(folder, model, num_tokens, top_k, policy, streams, slots, seed):
    x, capacity = states(num_tokens, seed=seed), Capacity.parse(policy)
    with Engine.open(
        folder, expert_cache_size=slots, stream_count=streams, top_k=top_k, capacity=capacity
    ) as engine:
        engine.set_input(x, [num_tokens] if num_tokens else [])
        engine.infer()
        for layer, wanted in enumerate(expected(model, x, top_k, capacity)):
            found = engine.get_output()[layer]
            assert found == pytest.approx(wanted.hidden_states, rel=1e-4, abs=1e-5)
            routed = engine.routing[layer]
            assert np.array_equal(routed.assigned.topk_ids, wanted.assigned.topk_ids)
            assert np.array_equal(engine.expert_load[layer], wanted.expert_load)
        lookups = engine.stats.hits + engine.stats.misses
        assert np.array_equal(lookups, engine.stats.calls)
        assert np.array_equal(engine.stats.tokens, engine.expert_load)
        resident = engine.stats.loads - engine.stats.evictions
        assert np.all(resident.sum(axis=1) <= slots)
        assert np.all((resident >= 0) & (resident <= 1))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_checkpoints(tmp_path, dtype):
    import ml_dtypes  # noqa: F401 - names bfloat16

    write_checkpoint(tmp_path, np.dtype(dtype))
    x, model = states(9), load_model(tmp_path)
    with Engine.open(tmp_path) as engine:
        engine.set_input(x, [4, 5])
        engine.infer()
        for layer, wanted in enumerate(expected(model, x, 2, Capacity.none())):
            assert engine.get_output()[layer] == pytest.approx(wanted.hidden_states, abs=1e-5)
        assert set(engine.stats.bytes_read[engine.stats.loads == 1].tolist()) == {3 * 16 * 24 * 2}


def test_layers_in_turn_add_up(folder, model):
    x = states(5)[0]
    wanted = x.astype(np.float64)
    for layer in range(L):
        weights = model.weights.layers[layer].moe
        wanted = wanted + moe_layer(wanted, weights, 2).hidden_states
    before = x.copy()
    with Engine.open(folder) as engine:
        engine.set_input(x, [2, 3])
        engine.infer()
        assert engine.get_output() == pytest.approx(wanted, rel=1e-4, abs=1e-4)
    assert np.array_equal(x, before)


def test_misses_are_those_of_lru_by_hand(tmp_path):
    write_checkpoint(tmp_path, num_hidden_layers=1, num_experts_per_tok=1)
    router = load_model(tmp_path).weights.layers[0].moe.router.T
    with Engine.open(tmp_path, expert_cache_size=2) as engine:
        x = np.ascontiguousarray(router[[0, 1, 0, 2, 1, 0]] * 10, np.float32)
        for row in x:  # a column of the router is what its expert answers to
            engine.run_layer(0, row[None])
        assert engine.stats.tokens.sum() == 6
        # 0 miss, 1 miss, 0 hit, 2 miss (1 goes), 1 miss (0 goes), 0 miss (2 goes)
        assert engine.stats.misses.tolist() == [[2, 2, 1, 0]]
        assert engine.stats.hits.tolist() == [[1, 0, 0, 0]]
        assert engine.stats.evictions.sum() == 3
        engine.reset_stats()
        engine.run_layer(0, x[4:5])
        assert engine.stats.miss_ratio == 0.0


def test_resident_experts_come_first(tmp_path):
    write_checkpoint(tmp_path, num_hidden_layers=1, num_experts_per_tok=1)
    router = load_model(tmp_path).weights.layers[0].moe.router.T
    with Engine.open(tmp_path, expert_cache_size=2) as engine:
        engine.run_layer(0, router[[2, 3]] * 10)
        engine.reset_stats()
        engine.run_layer(0, router[[0, 1, 2, 3]] * 10)
        assert engine.stats.hits.tolist() == [[0, 0, 1, 1]]


def test_generation_equals_the_reference(folder, model):
    with Engine.open(folder, expert_cache_size=2, stream_count=2) as engine:
        found = model.generate([5, 6, 7], 12, moe=engine.run_layer)
    assert found.token_ids == model.generate([5, 6, 7], 12).token_ids


def test_generation_on_the_sample_model(repository):
    sample = load_model(repository / "data" / "tiny-moe")
    prompt = sample.tokenizer.encode("In the beginning")
    with Engine.open(repository / "data" / "tiny-moe") as engine:
        found = sample.generate(prompt, 24, moe=engine.run_layer)
        assert engine.stats.evictions.sum() > 0
    assert found.token_ids == sample.generate(prompt, 24).token_ids


@pytest.mark.parametrize("policy", ["none", "hard:1.0", "soft:1.0"])
def test_all_tokens_to_one_expert(folder, model, policy):
    x = np.repeat(states(1), 33, axis=1)
    capacity = Capacity.parse(policy)
    # As many tokens as the engine takes: one expert then has a whole micro-batch of each stream.
    with Engine.open(
        folder, max_batch_size=1, max_seq_len=33, stream_count=2, top_k=1, capacity=capacity
    ) as engine:
        engine.set_input(x, [33])
        engine.infer()
        for layer, wanted in enumerate(expected(model, x, 1, capacity)):
            assert engine.get_output()[layer] == pytest.approx(wanted.hidden_states, abs=1e-5)
            dropped = engine.assigned(layer).dropped[:, 0]
            assert not engine.get_output()[layer][dropped].any()
        # 9 places of ceil(33 / 4); soft lets 11 through and fills the others' 11 each.
        most = {"none": 33, "hard:1.0": 9, "soft:1.0": 11}[policy]
        assert engine.expert_load.max(axis=1).tolist() == [most] * L


def test_own_arrays_are_used_without_a_copy(folder):
    x, out = states(6), np.empty((L, 6, H), np.float32)
    with Engine.open(folder) as engine:
        engine.set_input(x, [6])
        engine.infer(out=out)
        assert engine.get_output() is out
        assert engine._input is x


def test_the_engines_own_output_is_contiguous(folder):
    with Engine.open(folder) as engine:
        engine.set_input(states(6), [6])
        engine.infer()
        found = engine.get_output()
        assert found.flags.c_contiguous
        assert found.ctypes.data % 64 == 0
        engine.set_input(found.copy(), [6])


def test_a_result_outlives_the_engine_and_the_slots_do_not(folder):
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        engine = Engine.open(folder, max_seq_len=4096)
        total = sum(engine.memory_terms.values())
        assert tracemalloc.get_traced_memory()[0] - before >= total
        out = np.empty((L, 6, H), np.float32)
        engine.set_input(states(6), [6])
        engine.infer(out)
        kept = out.copy()
        engine.close()
        assert tracemalloc.get_traced_memory()[0] - before < total / 10
    finally:
        tracemalloc.stop()
    assert np.array_equal(out, kept)
    assert engine.expert_load.sum() == L * 6 * 2
    assert engine.stats.tokens.sum() == L * 6 * 2


def test_no_tokens(folder):
    with Engine.open(folder) as engine:
        engine.set_input(np.empty((L, 0, H), np.float32), [])
        engine.infer()
        assert engine.get_output().shape == (L, 0, H)
        assert engine.run_layer(0, np.empty((0, H))).shape == (0, H)


def test_memory_does_not_grow_from_call_to_call(folder):
    x = states(64)
    with Engine.open(folder) as engine:
        engine.set_input(x, [64])
        for _ in range(3):
            engine.infer()
        tracemalloc.start()
        try:
            engine.infer()
            before = tracemalloc.get_traced_memory()[0]
            for _ in range(20):
                engine.infer()
            grown = tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()
    assert grown < 4096


def test_blas_threads_are_pinned_and_given_back(folder):
    def threads():
        return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}

    with threadpool_limits(3, user_api="blas"):
        with Engine.open(folder, blas_threads=2) as engine:
            assert threads() == {engine.blas_threads} == {2}
        assert threads() == {3}
