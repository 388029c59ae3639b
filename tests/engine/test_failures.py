"""Failed reads, files that change, and streams that wait: errors, never a crash or a standstill."""

import os
import threading
import time

import numpy as np
import pytest

from colibri_lab.engine import Engine
from colibri_lab.errors import FormatError
from colibri_lab.models import load_model
from tests.support import write_checkpoint

H, L = 16, 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    write_checkpoint(path)
    return path


def states(num_tokens, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(L, num_tokens, H)).astype(np.float32)


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


def test_a_file_that_shrinks_is_an_error_and_no_crash(tmp_path):
    write_checkpoint(tmp_path)
    file = tmp_path / "model.safetensors"
    with Engine.open(tmp_path, expert_cache_size=1) as engine:
        whole = file.read_bytes()
        os.truncate(file, 100)
        engine.set_input(states(8), [8])
        with pytest.raises(FormatError, match="has shrunk") as caught:
            engine.infer()
        assert caught.value.path == str(file)
        with file.open("r+b") as again:  # the same file, whole once more
            again.write(whole)
        engine.infer()
        file.unlink()  # a mapped file outlives its name
        engine.infer()


def test_a_failing_stream_does_not_leave_others_running(tmp_path):
    write_checkpoint(tmp_path, num_hidden_layers=1, num_experts_per_tok=1)
    router = load_model(tmp_path).weights.layers[0].moe.router.T
    with Engine.open(tmp_path, stream_count=2) as engine:
        read, started, finished = engine._store.read_expert, threading.Event(), threading.Event()

        def broken(layer, expert):
            if expert == 0:
                assert started.wait(60)
                raise FormatError("gone")
            started.set()
            time.sleep(0.1)
            finished.set()
            return read(layer, expert)

        engine._store.read_expert = broken
        with pytest.raises(FormatError, match="gone"):
            engine.run_layer(0, router[[0, 1]] * 10)
        assert finished.is_set()


def test_many_streams_and_one_slot_do_not_block(folder):
    done = threading.Event()

    def work():
        with Engine.open(folder, expert_cache_size=1, stream_count=8) as engine:
            for seed in range(20):
                engine.run_layer(0, states(64, seed=seed)[0])
        done.set()

    threading.Thread(target=work, daemon=True).start()
    assert done.wait(60)
