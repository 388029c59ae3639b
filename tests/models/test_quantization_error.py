"""int8 errors against a direct calculation."""

import numpy as np
import pytest

from colibri_lab.models import load_model
from colibri_lab.models.quantization_error import quantization_errors
from tests.support import write_checkpoint


def test_errors_of_the_experts_that_were_used(tmp_path):
    write_checkpoint(tmp_path)
    model = load_model(tmp_path)
    ids = list(range(20))
    errors = quantization_errors(model, ids)
    load = model.forward(ids, trace=True).trace.expert_load()
    assert np.array_equal(errors.tokens, load)
    assert np.array_equal(np.isnan(errors.by_row), load == 0)
    used = load > 0
    assert np.all(errors.by_tensor[used] < 0.1)
    assert errors.by_row[used].mean() < errors.by_tensor[used].mean()


def test_weights_on_the_grid_lose_nothing(tmp_path):
    write_checkpoint(tmp_path)
    model = load_model(tmp_path)
    for layer in model.weights.layers:
        for expert in layer.moe.experts:
            for matrix in (expert.gate, expert.up, expert.down):
                matrix[...] = np.clip(np.rint(matrix / 0.4 * 127), -127, 127)
                matrix[:, 0] = 127  # so that the percentile of each row is the largest step
                np.multiply(matrix, 0.001, out=matrix)
    errors = quantization_errors(model, list(range(20)))
    used = errors.tokens > 0
    assert errors.by_row[used] == pytest.approx(0, abs=0.01)
