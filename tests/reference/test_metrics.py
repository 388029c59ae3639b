"""Metrics on values that are known exactly."""

import math

import numpy as np
import pytest

from colibri_lab.reference.metrics import (
    balancedness,
    entropy_bits,
    max_over_mean,
    next_token_losses,
    perplexity,
    relative_error,
)


def test_entropy():
    assert entropy_bits(np.array([1, 1, 1, 1])) == pytest.approx(2.0)
    assert entropy_bits(np.array([[8, 0], [2, 2]])).tolist() == pytest.approx([0.0, 1.0])
    assert entropy_bits(np.array([0, 0])) == 0.0
    assert entropy_bits(np.array([1, 1, 2])) == pytest.approx(1.5)


def test_balance():
    load = np.array([[4, 0, 0, 0], [1, 1, 1, 1], [2, 1, 1, 0]])
    assert max_over_mean(load).tolist() == [4.0, 1.0, 2.0]
    assert balancedness(load).tolist() == [0.25, 1.0, 0.5]
    assert math.isnan(max_over_mean(np.zeros(3)))


def test_relative_error():
    assert relative_error(np.array([3.0, 4.0]), np.array([3.0, 4.0])) == 0.0
    assert relative_error(np.array([3.0, 4.5]), np.array([3.0, 4.0])) == pytest.approx(0.1)
    assert relative_error(np.zeros(2), np.zeros(2)) == 0.0
    assert relative_error(np.ones(2), np.zeros(2)) == math.inf


def test_perplexity_of_a_uniform_model_is_its_vocabulary():
    losses = next_token_losses(np.zeros((2, 5, 11)), np.arange(10).reshape(2, 5))
    assert losses.shape == (2, 4)
    assert perplexity(losses) == pytest.approx(11.0)


def test_loss_takes_the_next_token():
    logits = np.full((1, 3, 4), -100.0)
    logits[0, 0, 2] = logits[0, 1, 3] = 100.0
    assert next_token_losses(logits, np.array([[0, 2, 3]])) == pytest.approx(np.zeros((1, 2)))
