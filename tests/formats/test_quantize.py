"""int8 quantisation against the format's own definition."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from colibri_lab.formats.quantize import (
    dequantize_expert,
    dequantize_matrix,
    quantize_expert,
    quantize_matrix,
)
from colibri_lab.reference import ExpertWeights


def test_scale_is_the_percentile_over_127():
    matrix = np.linspace(-1.0, 1.0, 2001).reshape(3, 667)
    values, scales = quantize_matrix(matrix, by_row=False)
    assert scales == pytest.approx([np.percentile(np.abs(matrix), 99.9) / 127])
    assert values.min() == -127
    assert values.max() == 127


def test_by_row_follows_each_row():
    matrix = np.array([[1.0, -1.0, 1.0], [100.0, 100.0, -100.0]])
    values, scales = quantize_matrix(matrix, by_row=True)
    assert scales == pytest.approx([1 / 127, 100 / 127])
    assert dequantize_matrix(values, scales) == pytest.approx(matrix)


def test_zeros_and_lone_values():
    values, scales = quantize_matrix(np.zeros((2, 3)), by_row=True)
    assert not values.any()
    assert np.all(scales > 0)
    lone = np.zeros((1, 4000))
    lone[0, 7] = 3.0  # the percentile is 0, the value is not
    values, scales = quantize_matrix(lone, by_row=True)
    assert dequantize_matrix(values, scales)[0, 7] == pytest.approx(3.0)


@given(
    hnp.arrays(
        np.float32,
        st.tuples(st.integers(1, 6), st.integers(1, 40)),
        elements=st.floats(-1e4, 1e4, width=32),
    ),
    st.booleans(),
)
def test_error_is_half_a_step_unless_clipped(matrix, by_row):
    values, scales = quantize_matrix(matrix, by_row)
    assert np.all(np.abs(values.astype(int)) <= 127)
    limit = 127 * scales[:, None].astype(np.float64)
    clipped = np.clip(matrix, -limit, limit)
    error = np.abs(dequantize_matrix(values, scales) - clipped)
    assert np.all(error <= 0.5001 * scales[:, None] + 1e-30)


@pytest.mark.parametrize("by_row", [False, True])
def test_expert_round_trip(by_row):
    rng = np.random.default_rng(0)
    expert = ExpertWeights(*(rng.normal(size=s) for s in ((5, 8), (5, 8), (8, 5))))
    again = dequantize_expert(quantize_expert(expert, by_row))
    for name in ("gate", "up", "down"):
        difference = getattr(again, name) - getattr(expert, name)
        assert np.abs(difference).max() < 0.05
