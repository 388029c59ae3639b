"""Locality on traces that can be counted by hand."""

import numpy as np
import pytest

from colibri_lab.traces.locality import (
    distinct_by_batch,
    independent_distinct,
    layer_overlap,
    reuse_steps,
    used_experts,
)
from colibri_lab.traces.synthetic import make_trace
from tests.cache.test_replay import make_trace as by_hand

# Two layers; tokens take (0, 1), (0, 2), (3, 1) and, of another request, (0, 0).
TRACE = by_hand([
    (1, 0, 0, 0, 0, 0), (1, 0, 0, 1, 0, 1), (1, 0, 1, 0, 0, 0), (1, 0, 1, 1, 0, 2),
    (1, 0, 2, 0, 0, 3), (1, 0, 2, 1, 0, 1), (1, 1, 0, 0, 0, 0), (1, 1, 0, 1, 0, 0),
    (0, 0, 9, 0, 0, 3),
])  # fmt: skip


def test_by_hand():
    used = used_experts(TRACE)
    assert used.shape == (4, 2, 4)
    assert used.sum() == 8  # the prefill row is not counted
    assert layer_overlap(used).tolist() == [0.25]
    assert distinct_by_batch(used, (1, 2, 4, 8)) == {1: 1.0, 2: 1.75, 4: 2.5}
    assert sorted(reuse_steps(used).tolist()) == [1, 2, 2]


def test_independent_draws_touch_what_the_formula_says():
    assert independent_distinct(8, 2, 1) == pytest.approx(2.0)
    assert independent_distinct(8, 2, 2) == pytest.approx(3.5)
    sizes = {"num_layers": 1, "num_experts": 32, "top_k": 4, "expert_bytes": 1}
    used = used_experts(make_trace("uniform", num_tokens=4096, **sizes))
    for batch, distinct in distinct_by_batch(used).items():
        assert distinct == pytest.approx(independent_distinct(32, 4, batch), rel=0.02)


def test_a_hot_set_touches_fewer():
    sizes = {"num_layers": 1, "num_experts": 32, "top_k": 2, "expert_bytes": 1}
    used = used_experts(make_trace("hot-set", num_tokens=1024, **sizes))
    assert distinct_by_batch(used)[16] < 0.6 * independent_distinct(32, 2, 16)
    assert np.median(reuse_steps(used)) <= 4
