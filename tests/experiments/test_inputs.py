"""Inputs: real hidden states, in the order of real decoding."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from colibri_lab.errors import InputError, RunError
from colibri_lab.experiments import inputs as inputs_module
from colibri_lab.experiments.inputs import (
    Inputs,
    Needs,
    capture,
    check_fit,
    load_inputs,
    random_inputs,
    save_inputs,
)
from colibri_lab.experiments.progress import Stopped
from colibri_lab.experiments.texts import Corpus, default_texts, read_corpus
from colibri_lab.reference import Decoder


@pytest.fixture(scope="module")
def corpus(texts: dict[str, Any]) -> Corpus:
    return read_corpus(texts, None)


def numbered(num_sequences: int, num_positions: int) -> Inputs:
    """States whose values say where they are from: 1000 * sequence + position, layer apart."""
    layers = np.arange(2)[:, None, None] * 1e6
    states = layers + np.arange(num_sequences)[:, None] * 1000 + np.arange(num_positions)
    return Inputs(
        states[..., None].astype(np.float32),
        "text",
        ("a",) * num_sequences,
        np.zeros((num_sequences, 0), np.int64),
        0,
    )


def test_captured_states_are_those_of_a_forward_pass(decoder: Decoder, corpus: Corpus) -> None:
    found = capture(decoder, corpus, Needs(batch_size=4, seq_len=2, num_calls=6))
    whole = decoder.forward(found.token_ids[2], trace=True)
    for layer, states in enumerate(whole.moe_inputs):
        np.testing.assert_allclose(
            found.hidden_states[layer, 2], states[found.context :], rtol=1e-5, atol=1e-6
        )
    assert found.domains == ("one", "two", "three", "one")


def test_sequences_do_not_overlap(decoder: Decoder, corpus: Corpus, texts: dict[str, Any]) -> None:
    found = capture(decoder, corpus, Needs(batch_size=5, seq_len=1, num_calls=6))
    length = found.token_ids.shape[1]
    np.testing.assert_array_equal(found.token_ids[0], texts["one"][:length])
    np.testing.assert_array_equal(found.token_ids[3], texts["one"][length : 2 * length])


def test_consecutive_calls_take_consecutive_positions() -> None:
    states = numbered(4, 64)
    for index in range(inputs_module.TURN_LENGTH):
        call = states.call(index, batch_size=2, seq_len=3)
        expected = [s * 1000 + index * 3 + p for s in (0, 1) for p in range(3)]
        assert call.shape == (2, 6, 1)
        assert call.flags.c_contiguous
        slots = 64 // 3
        if index < slots:
            np.testing.assert_array_equal(call[0, :, 0], expected)
            np.testing.assert_array_equal(call[1, :, 0], 1e6 + np.array(expected))


def test_every_sequence_takes_its_turn_and_goes_on_where_it_was() -> None:
    states, turn = numbered(4, 64), inputs_module.TURN_LENGTH
    first = [states.call(turn * n, batch_size=2, seq_len=1)[0, :, 0].tolist() for n in range(4)]
    assert first == [[0, 1000], [2000, 3000], [turn, 1000 + turn], [2000 + turn, 3000 + turn]]


def test_a_batch_that_does_not_divide_the_sequences_mixes_no_sequence_with_itself() -> None:
    states = numbered(5, 64)
    seen = set()
    for index in range(3 * inputs_module.TURN_LENGTH):
        values = states.call(index, batch_size=3, seq_len=1)[0, :, 0]
        assert len({int(value) // 1000 for value in values}) == 3
        seen |= {int(value) for value in values}
    assert len(seen) == 9 * inputs_module.TURN_LENGTH  # no state is given twice


def test_past_the_last_position_a_sequence_starts_over() -> None:
    states = numbered(1, 8)
    values = [int(states.call(index, 1, 2)[0, 0, 0]) for index in range(6)]
    assert values == [0, 2, 4, 6, 0, 2]


def test_random_inputs_are_seeded_and_marked(decoder: Decoder) -> None:
    needs = Needs(batch_size=2, seq_len=1, num_calls=3)
    first, again, other = (random_inputs(decoder, needs, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.hidden_states, again.hidden_states)
    assert not np.array_equal(first.hidden_states, other.hidden_states)
    assert first.describe()["synthetic"] is True


def test_stored_inputs_come_back_the_same(decoder: Decoder, corpus: Corpus, tmp_path: Path) -> None:
    made = capture(decoder, corpus, Needs(batch_size=2, seq_len=1, num_calls=3))
    save_inputs(tmp_path, made)
    back = load_inputs(tmp_path)
    assert back is not None
    assert back.describe() == made.describe()
    np.testing.assert_array_equal(back.hidden_states, made.hidden_states)
    assert load_inputs(tmp_path / "elsewhere") is None


def test_large_inputs_are_kept_as_float16(
    decoder: Decoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs_module, "LARGE_BYTES", 10)
    made = random_inputs(decoder, Needs(batch_size=2, seq_len=1, num_calls=3), 0)
    assert made.hidden_states.dtype == np.float16
    assert made.call(0, 1, 1).dtype == np.float32


def test_damaged_inputs_are_a_run_error(tmp_path: Path) -> None:
    (tmp_path / "inputs.npz").write_bytes(b"PK\x03\x04 not really")
    with pytest.raises(RunError, match="stored inputs cannot be read"):
        load_inputs(tmp_path)


def test_a_grid_that_outgrew_the_stored_inputs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="4 sequences of 64"):
        check_fit(numbered(4, 64), Needs(batch_size=5, seq_len=1, num_calls=3), tmp_path)
    check_fit(numbered(4, 64), Needs(batch_size=4, seq_len=64, num_calls=3), tmp_path)


def test_texts_that_are_too_short_say_so(decoder: Decoder) -> None:
    corpus = read_corpus({"only": list(range(10))}, None)
    with pytest.raises(InputError, match="seq_len is longer"):
        capture(decoder, corpus, Needs(batch_size=3, seq_len=4, num_calls=3))


def test_capture_stops_when_asked(decoder: Decoder, corpus: Corpus) -> None:
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(Stopped):
        capture(decoder, corpus, Needs(batch_size=2, seq_len=1, num_calls=3), cancel)


def test_text_without_a_tokenizer_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="token ids"):
        read_corpus({"prose": "some words"}, None)


def test_texts_are_read_from_files_one_a_domain(tmp_path: Path) -> None:
    class Letters:
        def encode(self, text: str) -> list[int]:
            return [ord(letter) for letter in text]

    (tmp_path / "b.txt").write_text("bbb")
    (tmp_path / "a.txt").write_text("aa")
    corpus = read_corpus(tmp_path, Letters())
    assert {name: ids.tolist() for name, ids in corpus.domains.items()} == {
        "a": [97, 97],
        "b": [98, 98, 98],
    }
    assert read_corpus([tmp_path / "b.txt"], Letters()).domains.keys() == {"b"}
    with pytest.raises(InputError, match="cannot be read"):
        read_corpus([tmp_path / "c.txt"], Letters())
    with pytest.raises(InputError, match="no texts"):
        read_corpus({}, Letters())


def test_another_text_has_another_digest() -> None:
    digests = {
        read_corpus({"a": [1, 2, 3]}, None).digest,
        read_corpus({"a": [1, 2, 4]}, None).digest,
        read_corpus({"b": [1, 2, 3]}, None).digest,
    }
    assert len(digests) == 3


def test_the_longest_window_is_the_longest_that_windows_gives() -> None:
    corpus = read_corpus({"a": range(20), "b": range(9)}, None)
    for count in (1, 2, 3, 4, 5):
        longest = corpus.longest_window(count)
        corpus.windows(count, longest)
        with pytest.raises(InputError):
            corpus.windows(count, longest + 1)


def test_held_out_texts_are_found_beside_the_model(tmp_path: Path) -> None:
    assert default_texts(str(tmp_path / "model")) is None
    (tmp_path / "heldout").mkdir()
    assert default_texts(str(tmp_path / "model")) == tmp_path / "heldout"
    assert default_texts("") is None
