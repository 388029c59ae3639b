"""What the engine refuses, and that a refusal leaves nothing half done."""

import numpy as np
import pytest

from colibri_lab.engine import Engine
from colibri_lab.errors import ColibriError, FormatError, InputError, ShapeError
from tests.support import write_checkpoint

H, E, L = 16, 4, 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    write_checkpoint(path)
    return path


@pytest.fixture
def engine(folder):
    with Engine.open(folder, max_batch_size=3, max_seq_len=8) as engine:
        yield engine


def states(num_tokens):
    return np.random.default_rng(0).normal(size=(L, num_tokens, H)).astype(np.float32)


@pytest.mark.parametrize(
    ("x", "lengths", "words"),
    [
        (states(4), [3], "wrong shape"),
        (states(4)[:1], [4], "wrong shape"),
        (states(4)[..., :8], [4], "wrong shape"),
        (states(4).tolist(), [4], "wrong shape"),
        (states(4).astype(np.float64), [4], "float32"),
        (states(4).astype(">f4"), [4], "float32"),
        (states(8)[:, ::2], [4], "float32"),
        (states(4), [1, 1, 1, 1], "max_batch_size"),
        (states(9), [9], "length is out of range"),
        (states(4), [4, 0], "length is out of range"),
        (states(4), [5, -1], "length is out of range"),
        (states(5), [2.5, 2.5], "whole numbers"),
        (states(4), [float("nan")], "whole numbers"),
        (states(4), ["4"], "whole numbers"),
        (states(4), np.array([[4]]), "whole numbers"),
        (states(4), 4, "whole numbers"),
    ],
)
def test_bad_input(engine, x, lengths, words):
    with pytest.raises(ShapeError, match=words):
        engine.set_input(x, lengths)


@pytest.mark.parametrize("lengths", [(1, 3), np.array([1, 3]), [np.int64(1), np.int32(3)]])
def test_lengths_may_be_any_sequence_of_whole_numbers(engine, lengths):
    engine.set_input(states(4), lengths)
    engine.infer()
    assert engine.get_output().shape == (L, 4, H)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused(engine, value):
    x = states(4)
    x[1, 2, 3] = value
    with pytest.raises(InputError, match="not finite"):
        engine.set_input(x, [4])
    with pytest.raises(InputError, match="not finite"):
        engine.run_layer(1, x[1])


def read_only():
    out = np.empty((L, 4, H), np.float32)
    out.flags.writeable = False
    return out


@pytest.mark.parametrize(
    ("out", "words"),
    [
        (np.empty((4, H), np.float32), "out has a wrong shape"),
        (np.empty((L, 5, H), np.float32), "out has a wrong shape"),
        (np.empty((L, 4, H)).tolist(), "out has a wrong shape"),
        (np.empty((L, 4, H)), "float32"),
        (np.empty((L, 4, 2 * H), np.float32)[..., ::2], "float32"),
        (read_only(), "read-only"),
    ],
)
def test_bad_out(engine, out, words):
    engine.set_input(states(4), [4])
    with pytest.raises(ShapeError, match=words):
        engine.infer(out)


@pytest.mark.parametrize("shape", [(3, H), (5, H), (L, 4, H)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bad_out_of_a_layer(engine, shape, dtype):
    with pytest.raises(ShapeError, match="out has a wrong shape"):
        engine.run_layer(0, states(4)[0], np.empty(shape, dtype))
    with pytest.raises(ShapeError, match="float32"):
        engine.run_layer(0, states(4)[0], np.empty((4, H)))


def test_an_out_that_shares_memory_with_the_input(engine):
    x = states(4)
    engine.set_input(x, [4])
    both = np.empty(2 * x.size - 8, np.float32)
    both[: x.size] = x.ravel()
    engine.set_input(both[: x.size].reshape(x.shape), [4])
    for out in (both[: x.size], both[x.size - 8 :]):
        with pytest.raises(ShapeError, match="share memory"):
            engine.infer(out.reshape(x.shape))
    with pytest.raises(ShapeError, match="share memory"):
        engine.run_layer(0, x[0], x[0])
    engine.set_input(x, [4])
    engine.infer()
    engine.set_input(engine.get_output(), [4])
    with pytest.raises(ShapeError, match="copy of get_output"):
        engine.infer()


@pytest.mark.parametrize(
    "options",
    [
        {"max_batch_size": 0},
        {"max_batch_size": 1.5},
        {"max_seq_len": -1},
        {"expert_cache_size": 0},
        {"stream_count": 0},
        {"stream_count": "2"},
        {"blas_threads": 0},
        {"top_k": 0},
        {"top_k": 1.5},
        {"top_k": E + 1},
        {"cache_policy": "magic"},
        {"capacity": "hard:1.0"},
    ],
)
def test_bad_options(folder, options):
    with pytest.raises(InputError, match="expected"):
        Engine.open(folder, **options)


@pytest.mark.parametrize("layer", [-1, L, 0.5, "0"])
def test_bad_layer(engine, layer):
    with pytest.raises(InputError, match="layer is out of range"):
        engine.run_layer(layer, states(1)[0])


@pytest.mark.parametrize("shape", [(3 * 8 + 1, H), (4, H + 1), (H,), (1, 4, H)])
def test_a_layer_takes_what_fits(engine, shape):
    with pytest.raises(ShapeError, match="do not fit the engine"):
        engine.run_layer(0, np.zeros(shape, np.float32))


def test_calls_out_of_order(engine):
    for call in (engine.infer, engine.get_output, lambda: engine.expert_load):
        with pytest.raises(ColibriError, match=r"no (in|out)put yet|routed nothing yet"):
            call()
    engine.run_layer(0, states(1)[0])
    assert engine.assigned(0).topk_ids.shape == (1, 2)
    with pytest.raises(ColibriError, match="MoE layer 1 has routed nothing yet"):
        engine.assigned(1)


def test_after_close(folder):
    engine = Engine.open(folder)
    engine.close()
    engine.close()
    for call in (
        engine.infer,
        engine.get_output,
        lambda: engine.set_input(states(1), [1]),
        lambda: engine.run_layer(0, states(1)[0]),
    ):
        with pytest.raises(ColibriError, match="closed"):
            call()


def test_a_refused_input_leaves_no_older_one(engine):
    engine.set_input(states(4), [4])
    with pytest.raises(ShapeError):
        engine.set_input(states(4), [3])
    with pytest.raises(ColibriError, match="no input yet"):
        engine.infer()


def test_a_failed_call_leaves_no_older_output(folder):
    def broken(layer, expert):
        raise FormatError("gone")

    with Engine.open(folder, expert_cache_size=1) as engine:
        engine.set_input(states(8), [8])
        engine.infer()
        engine._store.read_expert = broken
        with pytest.raises(FormatError, match="gone"):
            engine.infer()
        with pytest.raises(ColibriError, match="no output yet"):
            engine.get_output()
