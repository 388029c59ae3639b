"""The decoder's laws and its refusals; its arithmetic is held against transformers elsewhere."""

import numpy as np
import pytest

from colibri_lab.capacity import Capacity
from colibri_lab.errors import InputError, ShapeError
from colibri_lab.models import load_model
from colibri_lab.reference import moe_layer
from colibri_lab.reference.attention import attention_mask
from colibri_lab.reference.sampling import choose_token
from tests.support import write_checkpoint


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    write_checkpoint(folder)
    return load_model(folder)


IDS = np.random.default_rng(0).integers(0, 64, (2, 12))


def test_cache_changes_nothing(model):
    whole = model.forward(IDS).logits
    first = model.forward(IDS[:, :5])
    rest = [first.logits]
    for position in range(5, 12):
        rest.append(model.forward(IDS[:, position : position + 1], cache=first.cache).logits)
    assert np.concatenate(rest, axis=1) == pytest.approx(whole, abs=1e-10)
    assert first.cache.length == 12


def test_no_token_sees_the_future(model):
    changed = IDS.copy()
    changed[:, 8:] = (changed[:, 8:] + 1) % 64
    before, after = model.forward(IDS).logits, model.forward(changed).logits
    assert np.array_equal(before[:, :8], after[:, :8])
    assert not np.array_equal(before[:, 8:], after[:, 8:])


def test_sequences_of_a_batch_do_not_mix(model):
    both = model.forward(IDS).logits
    assert both[1] == pytest.approx(model.forward(IDS[1]).logits[0], abs=1e-10)


def test_sliding_window_forgets(tmp_path):
    write_checkpoint(tmp_path, sliding_window=3, num_hidden_layers=1)
    model = load_model(tmp_path)
    changed = IDS.copy()
    changed[:, 0] = (changed[:, 0] + 1) % 64
    before, after = model.forward(IDS).logits, model.forward(changed).logits
    assert not np.allclose(before[:, 2], after[:, 2])  # position 2 still sees position 0
    assert before[:, 3:] == pytest.approx(after[:, 3:], abs=1e-12)


def test_mask_by_hand():
    mask = attention_mask(2, 4, 2)
    assert mask.tolist() == [[False, True, True, False], [False, False, True, True]]


def test_trace_is_what_the_layers_did(model):
    output = model.forward(IDS, trace=True)
    trace = output.trace
    assert len(trace) == 2 * 12 * 2 * 2  # sequences, tokens, layers, top-k
    for layer, (inputs, done) in enumerate(zip(output.moe_inputs, output.moe_outputs, strict=True)):
        again = moe_layer(inputs, model.weights.layers[layer].moe, 2)
        assert np.array_equal(again.hidden_states, done.hidden_states)
        rows = trace.layer == layer
        assert np.array_equal(trace.expert[rows].reshape(24, 2), again.routing.topk_ids)
        assert trace.step[rows].reshape(2, 12, 2)[1, :, 0].tolist() == list(range(12))
        assert set(trace.request[rows][:24]) == {0}
        assert np.array_equal(trace.expert_load()[layer], again.expert_load)
    assert trace.expert_bytes == (3 * 16 * 24 * 4,) * 2
    assert set(trace.phase) == {0}


def test_capacity_and_top_k_reach_the_layers(model):
    output = model.forward(IDS, trace=True, top_k=1, capacity=Capacity.hard(1.0))
    assert output.trace.top_k == 1
    assert output.trace.expert_load().max() <= 6  # ceil(1.0 * 24 * 1 / 4)
    assert (output.trace.expert == -1).any()


def test_moe_can_be_replaced(model):
    seen = []

    def moe(layer, hidden_states):
        seen.append((layer, hidden_states.shape))
        return moe_layer(hidden_states, model.weights.layers[layer].moe, 2).hidden_states

    assert np.array_equal(model.forward(IDS, moe=moe).logits, model.forward(IDS).logits)
    assert seen == [(0, (24, 16)), (1, (24, 16))]


def test_greedy_takes_the_best(model):
    generation = model.generate([5, 6, 7], 4, trace=True)
    ids = [5, 6, 7]
    for _ in range(4):
        ids.append(int(model.forward(ids).logits[0, -1].argmax()))
    assert generation.token_ids == ids[3:]
    assert generation.trace.phase.sum() == 3 * 2 * 2  # three decode steps, layers, top-k
    assert sorted(set(generation.trace.step.tolist())) == list(range(6))


def test_sampling_repeats_with_its_seed(model):
    def sample(seed):
        return model.generate([5, 6, 7], 8, temperature=2.0, seed=seed).token_ids

    assert sample(1) == sample(1)
    assert len({tuple(sample(seed)) for seed in range(4)}) > 1


def test_sampling_follows_the_probabilities():
    logits = np.log(np.array([0.1, 0.6, 0.3]))
    generator = np.random.default_rng(0)
    drawn = [choose_token(logits, 1.0, 1.0, generator) for _ in range(4000)]
    assert np.bincount(drawn) / 4000 == pytest.approx([0.1, 0.6, 0.3], abs=0.03)
    assert {choose_token(logits, 1.0, 0.8, generator) for _ in range(200)} == {1, 2}
    assert choose_token(logits, 0.0, 1.0, generator) == 1


def test_generation_stops_at_the_last_position(model):
    assert len(model.generate([1] * 60, 50).token_ids) == 4
    assert model.generate([1] * 64, 50).token_ids == []
    with pytest.raises(InputError, match="longer than the model's positions"):
        model.generate([1] * 65, 50)


def test_generation_stops_at_end_of_text(tmp_path):
    write_checkpoint(tmp_path)
    first = load_model(tmp_path).generate([5, 6, 7], 3).token_ids
    write_checkpoint(tmp_path, eos_token_id=first[1])
    assert load_model(tmp_path).generate([5, 6, 7], 3).token_ids == first[: first.index(first[1])]


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        ([], "prompt is empty"),
        ([1, 64], "outside the vocabulary"),
        ([-1], "outside the vocabulary"),
        ([1] * 65, "longer than the model's positions"),
        ([1.5], "whole numbers"),
        ([[[1]]], "whole numbers"),
    ],
)
def test_bad_token_ids(model, ids, words):
    with pytest.raises(InputError, match=words):
        model.forward(ids)


def test_a_full_cache_is_refused(model):
    output = model.forward([1] * 64)
    with pytest.raises(InputError, match="longer than the model's positions"):
        model.forward([1], cache=output.cache)


@pytest.mark.parametrize("ids", [[1], [[1], [2], [3]]])
def test_a_cache_of_another_batch_is_refused_and_stays_as_it_was(model, ids):
    cache = model.forward(IDS).cache
    with pytest.raises(ShapeError, match="does not fit the new tokens") as caught:
        model.forward(ids, cache=cache)
    assert (caught.value.expected, caught.value.found) == (
        "batch 2, 2 heads of 4", f"batch {len(ids)}, 2 heads of 4",
    )  # fmt: skip
    assert cache.length == 12
    model.forward([[1], [2]], cache=cache)


@pytest.mark.parametrize("top_k", [0, 5])
def test_bad_top_k(model, top_k):
    with pytest.raises(InputError, match="top_k is out of range"):
        model.forward([1], top_k=top_k)


@pytest.mark.parametrize(
    "options",
    [{"temperature": -1.0}, {"temperature": float("nan")}, {"top_p": 0.0}, {"top_p": 2.0}],
)
def test_bad_sampling(model, options):
    with pytest.raises(InputError, match="out of range"):
        model.generate([1], 1, **options)


def test_the_coldest_sampling_is_greedy(model):
    greedy = model.generate([5, 6, 7], 4).token_ids
    assert model.generate([5, 6, 7], 4, temperature=5e-324).token_ids == greedy


def test_a_seed_is_not_negative(model):
    with pytest.raises(InputError, match="seed is negative"):
        model.generate([1], 1, temperature=1.0, seed=-1)


def test_generate_takes_one_prompt(model):
    with pytest.raises(InputError, match="one prompt"):
        model.generate([[1], [2]], 1)
    with pytest.raises(InputError, match="max_new_tokens is negative"):
        model.generate([1], -1)
    assert model.generate([1], 0).token_ids == []
