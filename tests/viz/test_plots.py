"""Figures drawn of tables that are made up."""

import pandas as pd
import pytest

from colibri_lab.viz import plots
from colibri_lab.viz.theme import DARK, LIGHT


def cells(policies, sizes=(1, 4, 16), absent=()):
    """Cells of capacity policies; `absent` are those that failed."""
    rows = [
        {"capacity": policy, "batch_size": size, "dropped_fraction": 0.1 / (1 + place),
         "moved_fraction": 0.0, "capacity_rel_error": 0.2, "perplexity": 11.0 + place}
        for place, policy in enumerate(policies)
        for size in sizes
        if (policy, size) not in absent
    ]  # fmt: skip
    return pd.DataFrame(rows)


def ticks(axes):
    labels = [label.get_text() for label in axes.get_xticklabels()]
    return dict(zip(axes.get_xticks(), labels, strict=True))


def test_as_many_capacity_policies_as_are_swept():
    policies = [f"hard:{1 + place / 4:g}" for place in range(8)]
    figure = plots.capacity_cost(cells(["none", *policies]), LIGHT)
    _, middle, right = figure.axes
    drawn = middle.get_lines()
    assert [line.get_label() for line in drawn] == policies
    assert len({(line.get_color(), line.get_marker()) for line in drawn}) == 8
    assert [label.get_text() for label in figure.legends[0].get_texts()] == policies
    assert len(right.patches) == 9
    bars = dict(zip(ticks(right).values(), right.patches, strict=True))
    for line in drawn:  # a policy has one colour in all panels
        red, green, blue, _ = bars[line.get_label()].get_facecolor()
        assert (
            line.get_color() == f"#{round(red * 255):02x}{round(green * 255):02x}"
            f"{round(blue * 255):02x}"
        )


def test_a_failed_cell_leaves_a_gap_and_moves_no_other():
    frame = cells(["none", "hard:1", "soft:1"], absent=[("hard:1", 1), ("soft:1", 4)])
    left, middle, _ = plots.capacity_cost(frame, LIGHT).axes
    for axes in (left, middle):
        assert ticks(axes) == {0: "1", 1: "4", 2: "16"}
    hard, soft = middle.get_lines()
    assert (list(hard.get_xdata()), list(soft.get_xdata())) == ([1, 2], [0, 2])


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)
def test_categories_are_told_apart(theme):
    marks = [tuple(theme.mark(index).values()) for index in range(36)]
    assert len(set(marks)) == 36
    lines = [(theme.mark(index)["color"], theme.line(index)) for index in range(36)]
    assert len(set(lines)) == 36
