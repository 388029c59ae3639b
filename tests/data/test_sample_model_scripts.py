"""The parts of the sample model's scripts that need no PyTorch."""

from __future__ import annotations

import random
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

SCRIPTS = Path(__file__).parents[2] / "tools" / "sample_model"


@pytest.fixture(scope="module", autouse=True)
def scripts_on_the_path():
    sys.path.insert(0, str(SCRIPTS))
    yield
    sys.path.remove(str(SCRIPTS))


def test_a_compressed_proof_becomes_the_placeholder():
    text = "th1 $p |- ( ph -> ps ) $=\n  ( cvv wcel ) ABCZD $.\nax1 $a |- ch $.\n"
    expected = "th1 $p |- ( ph -> ps ) $= ? $.\nax1 $a |- ch $.\n"
    assert import_module("corpora").strip_proofs(text) == expected


def test_a_comment_that_speaks_of_proofs_is_kept():
    text = "$( A proof stands between $= and $. always $)\nth $p |- ph $= a b $.\n"
    expected = "$( A proof stands between $= and $. always $)\nth $p |- ph $= ? $.\n"
    assert import_module("corpora").strip_proofs(text) == expected


def test_a_copy_is_found_and_fresh_text_is_not():
    copy = " ".join(f"word{n}" for n in range(40))
    fresh = " ".join(f"other{n}" for n in range(40))
    shares = import_module("split").overlaps({"copy": copy, "fresh": fresh}, [f"head {copy} tail"])
    assert shares == {"copy": (1.0, 1.0), "fresh": (0.0, 0.0)}


def test_a_slice_is_whole_lines_of_the_text():
    text = "".join(f"行{n} with words\n" for n in range(2000))
    part = import_module("split").middle_slice(text, 5000, random.Random(0))
    assert part in text
    assert set(part.splitlines()) <= set(text.splitlines())
    assert 4900 < len(part.encode()) <= 5000


def test_information_is_the_entropy_of_a_copy_and_nothing_of_a_constant():
    information = import_module("routing_measures").mutual_information_bits
    labels = np.repeat(np.arange(8), 100)
    assert information(labels, labels) == pytest.approx(3.0)
    assert information(labels, np.zeros_like(labels)) == 0


def information_of(top1: np.ndarray, labels: np.ndarray, inputs: np.ndarray) -> dict[str, float]:
    rng = np.random.default_rng(0)
    return import_module("routing_measures").domain_information(top1, labels, inputs, rng)


def test_shuffled_controls_stay_far_below_a_true_dependence():
    labels = np.repeat(np.arange(4), 50)
    top1 = np.repeat(labels[:, None], 32, axis=1)
    measured = information_of(top1, labels, np.zeros_like(top1))
    assert measured["bits"] == pytest.approx(2.0)
    assert measured["token_shuffled_bits"] < 0.01 < measured["sequence_shuffled_bits"] < 0.2
    assert measured["same_token_shuffled_bits"] < 0.01


def test_what_the_vocabulary_alone_explains_is_kept_by_its_control():
    labels = np.repeat(np.arange(4), 50)
    top1 = np.repeat(labels[:, None], 32, axis=1)
    measured = information_of(top1, labels, inputs=top1 + 7)
    assert measured["same_token_shuffled_bits"] == pytest.approx(measured["bits"])


def test_lru_hits_counted_by_hand():
    hit_ratio = import_module("routing_measures").lru_hit_ratio
    assert hit_ratio(np.array([0, 1, 0, 2, 1, 2]), 2) == pytest.approx(2 / 6)
    assert hit_ratio(np.array([0, 1, 2, 0, 1, 2]), 3) == pytest.approx(3 / 6)


def test_load_balance_counts_the_dead():
    load = import_module("routing_measures").load_balance(np.array([[0, 0], [0, 1]]), 4)
    assert load == {"busiest_over_mean": 3.0, "idlest_over_mean": 0.0, "dead_experts": 2}
