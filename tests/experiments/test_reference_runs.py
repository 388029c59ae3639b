"""Routing, dropped share, capacity error and perplexity, against direct computations."""

from __future__ import annotations

import itertools
import math
import threading
from typing import Any

import numpy as np
import pytest

from colibri_lab import Capacity
from colibri_lab.experiments.perplexity import (
    CallSize,
    PerplexityTable,
    call_size,
    measure_perplexity,
)
from colibri_lab.experiments.progress import Stopped
from colibri_lab.experiments.reference_runs import (
    capacity_error,
    layer_errors,
    run_layers,
    summarise_routing,
)
from colibri_lab.experiments.texts import read_corpus
from colibri_lab.reference import Decoder


@pytest.fixture(scope="module")
def calls(decoder: Decoder) -> list[Any]:
    rng = np.random.default_rng(3)
    shape = (decoder.config.num_layers, 6, decoder.config.hidden_size)
    return [rng.standard_normal(shape).astype(np.float32) for _ in range(5)]


def best_experts(states: Any, router: Any, top_k: int) -> list[list[int]]:
    """The top_k experts of each token, by sorting plain Python numbers."""
    chosen = []
    for token in states.astype(np.float64):
        logits = [float(token @ router[:, expert]) for expert in range(router.shape[1])]
        chosen.append(sorted(range(len(logits)), key=lambda e: (-logits[e], e))[:top_k])
    return chosen


def test_hard_capacity_is_counted_assignment_by_assignment(
    decoder: Decoder, calls: list[Any]
) -> None:
    found = summarise_routing(decoder, calls, 2, Capacity.hard(1.0))
    places = math.ceil(6 * 2 / 4)
    load = np.zeros((2, 4), int)
    dropped, active = [0, 0], np.zeros((5, 2), int)
    for index, call in enumerate(calls):
        for layer in range(2):
            taken = [0] * 4
            router = decoder.weights.layers[layer].moe.router
            for expert in itertools.chain(*best_experts(call[layer], router, 2)):
                if taken[expert] < places:
                    taken[expert] += 1
                else:
                    dropped[layer] += 1
            load[layer] += taken
            active[index, layer] = sum(count > 0 for count in taken)
    assert sum(dropped) > 0
    np.testing.assert_array_equal(found.expert_load, load)
    np.testing.assert_array_equal(found.dropped, dropped)
    np.testing.assert_array_equal(found.active, active)
    assert found.dropped_fraction == pytest.approx(sum(dropped) / (5 * 2 * 6 * 2))
    assert found.moved_fraction == 0


def test_every_assignment_is_loaded_or_dropped(decoder: Decoder, calls: list[Any]) -> None:
    for capacity in (Capacity.none(), Capacity.hard(1.0), Capacity.soft(1.0, 0.0)):
        found = summarise_routing(decoder, calls, 2, capacity)
        counted = found.expert_load.sum(axis=1) + found.dropped
        np.testing.assert_array_equal(counted, 5 * 6 * 2)
    assert found.moved.sum() > 0


def test_capacity_error_is_the_mean_of_the_layers_relative_errors(
    decoder: Decoder, calls: list[Any]
) -> None:
    found = capacity_error(decoder, calls, 2, Capacity.hard(1.0))
    errors = []
    for layer in range(2):
        difference = size = 0.0
        for call in calls:
            limited = run_layers(decoder, call, 2, Capacity.hard(1.0))[layer]
            whole = run_layers(decoder, call, 2, Capacity.none())[layer]
            difference += ((limited - whole) ** 2).sum()
            size += (whole**2).sum()
        errors.append(math.sqrt(difference / size))
    assert found == pytest.approx(sum(errors) / 2)
    assert found > 0.05
    assert capacity_error(decoder, calls, 2, Capacity.none()) == 0


def test_a_wrong_layer_is_seen_in_its_own_error() -> None:
    reference = np.ones((3, 4, 5))
    reference[1] *= 1e-6
    found = reference.copy()
    found[1] *= 1.5
    np.testing.assert_allclose(layer_errors(found, reference), [0, 0.5, 0])


def test_perplexity_is_that_of_a_direct_softmax(decoder: Decoder, texts: dict[str, Any]) -> None:
    corpus = read_corpus(texts, None)
    found = measure_perplexity(decoder, corpus, CallSize(3, 16, 2), 1, Capacity.hard(1.0))
    losses = []
    for window in (slice(0, 16), slice(16, 32)):
        rows = np.stack([texts[name][window] for name in ("one", "two", "three")])
        logits = decoder.forward(rows, top_k=1, capacity=Capacity.hard(1.0)).logits
        for row, predicted in zip(rows, logits, strict=True):
            for position in range(15):
                scores = [math.exp(value) for value in predicted[position]]
                losses.append(-math.log(scores[row[position + 1]] / sum(scores)))
    assert found == pytest.approx(math.exp(sum(losses) / len(losses)), rel=1e-10)
    assert len(losses) == CallSize(3, 16, 2).describe()["predicted_tokens"]


def test_the_perplexity_call_fits_model_and_texts(decoder: Decoder, texts: dict[str, Any]) -> None:
    size = call_size(decoder, read_corpus(texts, None))
    assert size == CallSize(sequences=3, tokens=64, calls=4)  # the model has 64 positions
    assert call_size(decoder, read_corpus({"a": [1]}, None)) is None


def test_a_perplexity_is_worked_out_once(
    decoder: Decoder, texts: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = PerplexityTable(decoder, read_corpus(texts, None))
    first = table.of(2, Capacity.none())
    monkeypatch.setattr(Decoder, "forward", None)  # a second pass would fail
    assert table.of(2, Capacity.parse("none")) == first
    assert table.values == {"top_k=2 capacity=none": first}


def test_without_texts_there_is_no_perplexity(decoder: Decoder) -> None:
    table = PerplexityTable(decoder, None)
    assert table.of(2, Capacity.none()) is None
    assert table.describe() is None


def test_perplexity_stops_when_asked(decoder: Decoder, texts: dict[str, Any]) -> None:
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(Stopped):
        PerplexityTable(decoder, read_corpus(texts, None)).of(2, Capacity.none(), cancel)
