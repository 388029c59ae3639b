"""Locality on traces that can be counted by hand."""

import tracemalloc

import numpy as np
import pytest

from colibri_lab.reference.trace import RoutingTrace
from colibri_lab.traces.locality import (
    distinct_by_batch,
    independent_distinct,
    layer_overlap,
    reuse_steps,
    used_experts,
)
from colibri_lab.traces.synthetic import make_trace


def by_hand(rows, num_layers=2, num_experts=4):
    """rows : (phase, request, step, layer, slot, expert)."""
    columns = np.array(rows, np.int64).reshape(-1, 6).T
    names = ("phase", "request", "step", "layer", "slot", "expert")
    return RoutingTrace(
        **{name: column.astype(np.int32) for name, column in zip(names, columns, strict=True)},
        weight=np.ones(columns.shape[1], np.float32),
        num_layers=num_layers,
        num_experts=num_experts,
        top_k=2,
        expert_bytes=(10,) * num_layers,
    )


# Two layers; tokens take (0, 1), (0, 2), (3, 1) and, of another request, (0, 0).
TRACE = by_hand([
    (1, 0, 0, 0, 0, 0), (1, 0, 0, 1, 0, 1), (1, 0, 1, 0, 0, 0), (1, 0, 1, 1, 0, 2),
    (1, 0, 2, 0, 0, 3), (1, 0, 2, 1, 0, 1), (1, 1, 0, 0, 0, 0), (1, 1, 0, 1, 0, 0),
    (0, 0, 9, 0, 0, 3),
])  # fmt: skip


def test_by_hand():
    used = used_experts(TRACE)
    assert (used.num_tokens, used.num_layers, used.num_experts) == (4, 2, 4)
    assert len(used) == 8  # the prefill row is not counted
    assert layer_overlap(used).tolist() == [0.25]
    assert distinct_by_batch(used, (1, 2, 4, 8)) == {1: 1.0, 2: 1.75, 4: 2.5}
    assert sorted(reuse_steps(used).tolist()) == [1, 2, 2]


def dense(trace):
    """[tokens, L, E] the plain way: a table of every token, layer and expert."""
    columns = (trace.phase, trace.request, trace.step, trace.layer, trace.expert)
    rows = [
        row for row in zip(*(c.tolist() for c in columns), strict=True) if row[0] and row[4] >= 0
    ]
    tokens = sorted({row[1:3] for row in rows})
    table = np.zeros((len(tokens), trace.num_layers, trace.num_experts), bool)
    for _, request, step, layer, expert in rows:
        table[tokens.index((request, step)), layer, expert] = True
    return table


@pytest.mark.parametrize("seed", range(8))
def test_as_a_table_of_all_tokens_layers_and_experts_says(seed):
    rng = np.random.default_rng(seed)
    high = (2, 3, 6, 2, 2, 5)
    rows = {tuple(map(int, rng.integers(0, high))) for _ in range(rng.integers(0, 120))}
    trace = by_hand([(*row[:5], row[5] - (row[5] == 4) * 5) for row in sorted(rows)])
    table, used = dense(trace), used_experts(trace)
    assert np.argwhere(table).tolist() == sorted(
        np.stack([used.token, used.layer, used.expert], axis=1).tolist()
    )
    same, total = (table[:, 1:] & table[:, :-1]).sum((0, 2)), table[:, 1:].sum((0, 2))
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(layer_overlap(used), same / total)
    windows = {size: len(table) // size for size in (1, 2, 4, 8)}
    assert distinct_by_batch(used, (1, 2, 4, 8)) == {
        size: table[: count * size].reshape(count, size, *table.shape[1:]).any(1).sum(2).mean()
        for size, count in windows.items()
        if count
    }
    gaps = [
        np.diff(np.flatnonzero(table[:, layer, expert]))
        for layer in range(table.shape[1])
        for expert in range(table.shape[2])
    ]
    assert reuse_steps(used).tolist() == np.concatenate(gaps).tolist()


def test_memory_grows_with_the_trace_and_not_with_tokens_times_experts():
    tokens, layers, experts = 4000, 8, 4096
    step, layer = (axis.ravel() for axis in np.indices((tokens, layers)))
    chosen = np.random.default_rng(0).integers(0, experts, len(step))
    trace = by_hand(
        np.stack([step * 0 + 1, step * 0, step, layer, step * 0, chosen], axis=1),
        num_layers=layers, num_experts=experts,
    )  # fmt: skip
    tracemalloc.start()
    try:
        used = used_experts(trace)
        layer_overlap(used), distinct_by_batch(used), reuse_steps(used)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 200 * len(trace) < tokens * layers * experts / 20


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
