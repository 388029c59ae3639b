"""Recorded reading is what the model does with the whole text at once."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from colibri_lab.cache import Rules, batches, replay
from colibri_lab.cache.stream import stream_batches
from colibri_lab.errors import InputError
from colibri_lab.models import load_model
from colibri_lab.reference.trace import PREFILL
from colibri_lab.traces import read_trace, write_trace
from colibri_lab.traces.parquet import read_parts
from colibri_lab.traces.record import record_reading
from colibri_lab.traces.suspicions import suspicions
from tests.cache.test_replay import make_trace
from tests.support import write_checkpoint


@pytest.fixture
def model(tmp_path):
    write_checkpoint(tmp_path)
    return load_model(tmp_path)


def test_reading_routes_as_the_whole_text_does(tmp_path):
    write_checkpoint(tmp_path)
    model = load_model(tmp_path)
    texts = [list(range(20)), list(range(30, 50))]
    trace = record_reading(model, texts, num_prefill=4)
    for request, ids in enumerate(texts):
        whole = model.forward(ids, trace=True).trace
        mine = trace.request == request
        for layer in range(2):
            found = trace.expert[mine & (trace.layer == layer)]
            assert np.array_equal(found, whole.expert[whole.layer == layer])
    assert (trace.phase == 0).sum() == 2 * 4 * 2 * 2
    assert "teacher-forced" in trace.source
    assert not any("sorted by phase" in text for text in suspicions(trace))
    unsaid = replace(trace, source="")
    assert any("sorted by phase" in text for text in suspicions(unsaid))


@pytest.mark.parametrize(("requests", "prefill"), [([], 1), ([[1, 2]], 2), ([[1, 2]], 0)])
def test_texts_that_are_too_short(tmp_path, requests, prefill):
    write_checkpoint(tmp_path)
    with pytest.raises(InputError, match="too short"):
        record_reading(load_model(tmp_path), requests, prefill)


def test_each_router_is_asked_one_layer_early(model):
    # By hand: what the layer before saw, shown to this layer's router.
    requests = [list(range(20)), list(range(5, 30))]
    trace = record_reading(model, requests, num_prefill=4)
    assert trace.lookahead is not None
    for layer, request in itertools.product(range(trace.num_layers), (0, 1)):
        rows = (trace.layer == layer) & (trace.request == request) & (trace.phase == PREFILL)
        found = trace.lookahead[rows].reshape(-1, trace.top_k)
        if layer == 0:
            assert (found == -1).all()
            continue
        ids = np.array(requests[request][:4])
        seen = model.forward(ids, trace=True).moe_inputs[layer - 1]
        logits = seen @ model.weights.layers[layer].moe.router
        assert np.array_equal(found, np.argsort(-logits, axis=1)[:, : trace.top_k])


def test_a_look_ahead_is_kept_on_disk_and_in_parts(model, tmp_path):
    trace = record_reading(model, [list(range(20))], num_prefill=4)
    write_trace(trace, tmp_path / "t.parquet")
    assert np.array_equal(read_trace(tmp_path / "t.parquet").lookahead, trace.lookahead)
    whole = batches(trace)
    assert stream_batches(read_parts(tmp_path / "t.parquet", 7)).guesses == whole.guesses
    assert len(whole.guesses) == len(whole)
    later = whole.layers > 0
    assert all(bool(guess) == bool(late) for guess, late in zip(whole.guesses, later, strict=True))


def test_a_perfect_look_ahead_never_misses_in_decode():
    rows = [(1, 0, step, layer, 0, step % 4) for step in range(20) for layer in range(2)]
    trace = make_trace(rows)
    known = replace(trace, lookahead=trace.expert.copy())
    rules = Rules(predictor="look-ahead", depth=1)
    (result,) = replay(known, ["lru"], [10], rules)
    assert result.prefetch_hit_ratio == 1.0
    with pytest.raises(InputError, match="predictor is not known"):
        replay(trace, ["lru"], [10], rules)


def test_texts_that_are_too_long_are_refused_before_anything_is_read(model, monkeypatch):
    monkeypatch.setattr(type(model), "forward", lambda *_, **__: pytest.fail("it was read"))
    longer = [0] * (model.config.max_seq_len + 1)
    with pytest.raises(InputError, match="too long to record"):
        record_reading(model, [[0] * 20, longer])
