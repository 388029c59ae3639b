"""Figures of routing on text, by what they draw."""

import numpy as np

from colibri_lab.models import load_model
from colibri_lab.viz.tokens import best_experts, domain_shares, router_bars, token_strip, visible
from tests.support import write_checkpoint


def test_strip_shows_the_best_expert_of_every_token(tmp_path):
    write_checkpoint(tmp_path)
    output = load_model(tmp_path).forward(list(range(20)), trace=True)
    best = best_experts(output.trace)
    wanted = [done.routing.topk_ids[:, 0] for done in output.moe_outputs]
    assert np.array_equal(best, wanted)
    figure = token_strip([f"t{i}" for i in range(20)], output.trace, per_row=16)
    assert len(figure.axes) == 2
    numbers = [text.get_text() for axes in figure.axes for text in axes.texts]
    assert len(numbers) == 40
    assert numbers[:16] == [str(expert) for expert in best[0, :16]]
    labels = [label.get_text() for label in figure.axes[1].get_xticklabels()]
    assert labels == ["t16", "t17", "t18", "t19"]


def test_white_space_is_shown():
    assert visible(" a\n") == "\u00b7a\u21b5"
    assert visible("$x$") == r"\$x\$"
    assert visible("") == "?"


def test_shares_add_up(tmp_path):
    loads = {"one": np.array([[3, 1], [0, 4]]), "two": np.array([[1, 1], [2, 2]])}
    figure = domain_shares(loads, layer=0)
    assert [text.get_text() for text in figure.axes[0].texts] == ["75", "25", "50", "50"]


def test_bars_fill_the_chosen(tmp_path):
    figure = router_bars(np.array([[0.7, 0.2, 0.1]]), np.array([[0, 1]], np.int32))
    colors = [bar.get_facecolor() for bar in figure.axes[0].patches]
    assert colors[0] == colors[1] != colors[2]
