"""The cache's figures and panel, through what they draw and say."""

from dataclasses import replace

import numpy as np
import pytest

from colibri_lab.cache import batches, replay
from colibri_lab.errors import InputError
from colibri_lab.traces.synthetic import make_trace
from colibri_lab.viz.cache import (
    CachePanel,
    budget_steps,
    curve_figure,
    layer_figure,
    mark_of,
    results_frame,
)

SIZES = {"num_layers": 2, "num_experts": 16, "top_k": 2, "expert_bytes": 1 << 20}


def small_trace():
    return make_trace("zipf", num_tokens=60, **SIZES)


def test_budgets_reach_from_a_call_to_all_experts():
    trace = small_trace()
    steps = budget_steps(trace, 5)
    assert steps[0] == 2 << 20
    assert steps[-1] == len(np.unique(batches(trace).keys)) << 20
    assert len(steps) == 5


def test_figure_draws_every_policy_and_marks():
    curves = {"belady": np.array([0.5, 0.1]), "lru": np.array([0.9, 0.2])}
    figure = curve_figure(curves, [1 << 20, 2 << 20], cliff=1 << 20, note="synthetic: zipf")
    (axes,) = figure.axes
    drawn = {line.get_label(): line.get_ydata().tolist() for line in axes.lines[:2]}
    assert drawn == {name: values.tolist() for name, values in curves.items()}
    assert [text.get_text() for text in axes.texts] == ["cliff"]
    assert "synthetic" in axes.get_title(loc="left")


def test_panel_follows_its_controls():
    panel = CachePanel(small_trace())
    before, words = bytes(panel.picture.value), panel.words.value
    assert before.startswith(b"\x89PNG")
    assert "lru finds" in words
    panel.budget.value = panel.budget.options[-1][1]
    assert panel.words.value != words
    assert bytes(panel.picture.value) != before
    panel.policies.value = ("fifo",)
    assert "fifo finds" in panel.words.value
    assert all(slider.continuous_update is False for slider in
               (panel.budget, panel.top_k, *panel._costs))  # fmt: skip


def test_table_of_replays():
    frame = results_frame(replay(small_trace(), ["lru", "belady"], [4 << 20]))
    assert frame["policy"].tolist() == ["lru", "belady"]
    assert frame["regret"].iloc[1] == 0


def test_panel_changes_trace_and_top_k():
    one = make_trace("uniform", num_tokens=40, **{**SIZES, "top_k": 1})
    panel = CachePanel({"zipf": small_trace(), "uniform": one})
    assert panel.top_k.max == panel.top_k.value == 2
    both = bytes(panel.picture.value)
    panel.top_k.value = 1
    assert bytes(panel.picture.value) != both
    panel.trace.value = "uniform"
    assert panel.top_k.max == 1
    assert panel.budget.value in panel._view().budgets
    assert "finds" in panel.words.value


def test_panel_without_traces():
    with pytest.raises(InputError, match="needs a trace"):
        CachePanel({})


def test_figures_mark_what_no_engine_served():
    made = small_trace()
    assert "synthetic" in mark_of(made)
    assert mark_of(replace(made, source="2 requests interleaved; read")).startswith("2 requests")
    assert mark_of(replace(made, source="route_trace v1")) == ""
    figure = layer_figure(np.array([[1.0, 0.5], [0.9, 0.1]]), [1, 2], note=mark_of(made))
    axes = figure.axes[0]
    assert "synthetic" in axes.get_title(loc="left")
    (mesh,) = axes.collections
    assert mesh.get_array().reshape(2, 2).tolist() == [[1.0, 0.5], [0.9, 0.1]]
    assert axes.yaxis_inverted()


@pytest.mark.parametrize("traces", [None, {"a": None}, [small_trace()]])
def test_panel_of_what_is_no_trace(traces):
    with pytest.raises(InputError, match="needs a trace"):
        CachePanel(traces)


def test_panel_says_what_is_wrong_with_a_trace_in_place_of_another_ones_picture():
    good = small_trace()
    panel = CachePanel({"good": good, "no sizes": replace(good, expert_bytes=(0, 0))})
    before = bytes(panel.picture.value)
    panel.trace.value = "no sizes"
    assert "does not say how large" in panel.words.value
    assert panel.picture.value == b""
    panel.trace.value = "good"
    assert bytes(panel.picture.value) == before


def test_panel_without_policies_still_judges():
    panel = CachePanel(small_trace())
    panel.policies.value = ()
    assert "lru finds" in panel.words.value
