"""The engine against the reference, and what it refuses."""

import threading
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_info

from colibri_lab.capacity import Capacity
from colibri_lab.engine import Engine
from colibri_lab.engine import buffers as buffers_module
from colibri_lab.errors import ColibriError, DeviceUnavailable, FormatError, InputError, ShapeError
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
    num_tokens=st.integers(1, 33),
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
        engine.set_input(x, [num_tokens])
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


def test_own_arrays_are_used_without_a_copy(folder):
    x, out = states(6), np.empty((L, 6, H), np.float32)
    with Engine.open(folder) as engine:
        engine.set_input(x, [6])
        engine.infer(out=out)
        assert engine.get_output() is out
        assert engine._input is x


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
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    before = threads()
    with Engine.open(folder, blas_threads=1):
        assert set(threads()) == {1}
    assert threads() == before


@pytest.mark.parametrize(
    ("x", "lengths", "words"),
    [
        (states(4), [3], "wrong shape"),
        (states(4)[:1], [4], "wrong shape"),
        (states(4)[..., :8], [4], "wrong shape"),
        (states(4).astype(np.float64), [4], "float32"),
        (states(8)[:, ::2], [4], "float32"),
        (states(4), [1, 1, 1, 1], "max_batch_size"),
        (states(9), [9], "length is out of range"),
        (states(4), [4, 0], "length is out of range"),
        (states(4), [5, -1], "length is out of range"),
    ],
)
def test_bad_input(folder, x, lengths, words):
    with (
        Engine.open(folder, max_batch_size=3, max_seq_len=8) as engine,
        pytest.raises(ShapeError, match=words),
    ):
        engine.set_input(x, lengths)


def test_nan_is_refused(folder):
    x = states(4)
    x[1, 2, 3] = np.nan
    with Engine.open(folder) as engine, pytest.raises(InputError, match="not finite"):
        engine.set_input(x, [4])


def test_bad_out(folder):
    with Engine.open(folder) as engine:
        engine.set_input(states(4), [4])
        with pytest.raises(ShapeError, match="out has a wrong shape"):
            engine.infer(out=np.empty((4, H), np.float32))
        with pytest.raises(ShapeError, match="float32"):
            engine.infer(out=np.empty((L, 4, H)))


@pytest.mark.parametrize(
    "options",
    [
        {"max_batch_size": 0},
        {"max_seq_len": -1},
        {"expert_cache_size": 0},
        {"stream_count": 0},
        {"blas_threads": 0},
        {"top_k": 0},
        {"top_k": E + 1},
        {"cache_policy": "magic"},
    ],
)
def test_bad_options(folder, options):
    with pytest.raises(InputError, match="expected"):
        Engine.open(folder, **options)


def test_calls_out_of_order(folder):
    engine = Engine.open(folder)
    with pytest.raises(ColibriError, match="no input yet"):
        engine.infer()
    with pytest.raises(ColibriError, match="no output yet"):
        engine.get_output()
    with pytest.raises(InputError, match="layer is out of range"):
        engine.run_layer(L, states(1)[0])
    with pytest.raises(ShapeError):
        engine.run_layer(0, np.zeros((8 * 128 + 1, H)))
    engine.close()
    engine.close()
    for call in (engine.infer, engine.get_output, lambda: engine.run_layer(0, states(1)[0])):
        with pytest.raises(ColibriError, match="closed"):
            call()


def test_what_does_not_fit_is_refused_before_allocation(folder, monkeypatch):
    monkeypatch.setattr(buffers_module, "available_bytes", lambda: 1000)
    with pytest.raises(DeviceUnavailable, match="expert slots") as caught:
        Engine.open(folder)
    assert caught.value.expected == "at most 1,000 bytes"
    assert f"{L * 4 * 3 * 24 * 16 * 4:,}" in caught.value.found


def test_a_failed_load_leaves_the_cache_whole(folder):
    x = states(8)
    with Engine.open(folder, expert_cache_size=1, stream_count=2) as engine:
        good, calls = engine._store.read_expert, []

        def broken(layer, expert):
            calls.append((layer, expert))
            if len(calls) == 2:
                raise FormatError("the file has shrunk")
            return good(layer, expert)

        engine._store.read_expert = broken
        engine.set_input(x, [8])
        with pytest.raises(FormatError, match="shrunk"):
            engine.infer()
        engine.infer()
        again = engine.get_output().copy()
        engine._store.read_expert = good
        engine.infer()
        assert np.array_equal(engine.get_output(), again)


def test_many_streams_and_one_slot_do_not_block(folder):
    done = threading.Event()

    def work():
        with Engine.open(folder, expert_cache_size=1, stream_count=8) as engine:
            for seed in range(20):
                engine.run_layer(0, states(64, seed=seed)[0])
        done.set()

    threading.Thread(target=work, daemon=True).start()
    assert done.wait(60)
