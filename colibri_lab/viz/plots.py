"""The figures of a sweep: each takes tables or arrays and a theme, and returns a Figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from numpy.typing import NDArray

from .select import NAMES, refuse_emulated
from .theme import Theme, finish, new_figure

if TYPE_CHECKING:
    import pandas as pd

Samples = Mapping[str, NDArray[Any]]  # cell_id -> latency in ms
SPREAD = (1, 25, 50, 75, 99)
TIMES = ("latency_p50_ms", "latency_p90_ms", "latency_p99_ms", "tokens_per_s", "roofline_floor_ms")


def latency_by_axis(panels: Mapping[str, pd.DataFrame], samples: Samples, theme: Theme) -> Figure:
    """Latency along each axis, one panel an axis: median, quartiles, 1st to 99th percentile, floor.

    panels : axis -> cells that differ along it alone.   InputError where one is emulated.
    """
    for frame in panels.values():
        refuse_emulated(frame)
    columns = min(len(panels), 2)
    rows = -(-len(panels) // columns)
    figure, axes = new_figure(8.2, 2.9 * rows, rows, columns)
    flat = np.atleast_1d(axes).ravel()
    for place, (axis, frame) in zip(flat, panels.items(), strict=False):
        _spread_panel(place, axis, frame, samples, theme)
    for unused in flat[len(panels) :]:
        unused.remove()
    _share_y(list(flat[: len(panels)]))
    return figure


def _spread_panel(
    axes: Axes, axis: str, frame: pd.DataFrame, samples: Samples, theme: Theme
) -> None:
    for index, (_, cell) in enumerate(frame.iterrows()):
        low, first, middle, third, high = np.percentile(samples[cell["cell_id"]], SPREAD)
        axes.vlines(index, low, high, color=theme.series[0], linewidth=1.2)
        axes.vlines(index, first, third, color=theme.series[0], linewidth=6, alpha=0.45)
        axes.plot(index, middle, "o", color=theme.series[0], zorder=3)
        axes.annotate(
            f"{middle:.3g}", (index, middle), (9, 0), textcoords="offset points", va="center",
            fontsize=8.5,
        )  # fmt: skip
        floor = cell["roofline_floor_ms"]
        if floor == floor:
            axes.hlines(floor, index - 0.28, index + 0.28, color=theme.muted, linewidth=2)
            if index == 0:
                axes.annotate("floor", (0.34, floor), va="center", color=theme.muted, fontsize=8.5)
    axes.set_yscale("log")
    axes.set_xlim(-0.6, len(frame) - 0.2)
    axes.set_xticks(range(len(frame)), [str(value) for value in frame[axis]])
    finish(axes, NAMES[axis], "latency, ms", "")
    _plain_log(axes)


def lines(
    frame: pd.DataFrame, x: str, y: str, series: str, theme: Theme, *, ylabel: str, title: str = "",
    axes: Axes | None = None, log_y: bool = False,
) -> Figure | None:  # fmt: skip
    """One line for each value of `series`, labelled in a legend; x steps are even.

    Raises InputError where y is a time and a cell is emulated.
    """
    if y in TIMES:
        refuse_emulated(frame)
    figure = None
    if axes is None:
        figure, axes = new_figure(4.6, 3.2)
    steps = {value: index for index, value in enumerate(sorted(frame[x].unique()))}
    for index, (value, part) in enumerate(frame.sort_values(x).groupby(series, sort=True)):
        axes.plot(
            [steps[step] for step in part[x]], part[y].astype(float),
            linestyle=theme.line(index), label=_label(series, value), **theme.mark(index),
        )  # fmt: skip
    axes.set_xticks(range(len(steps)), [str(step) for step in steps])
    finish(axes, NAMES.get(x, x), ylabel, title)
    if log_y:
        axes.set_yscale("log")
        _plain_log(axes)
    else:
        axes.set_ylim(bottom=0)
    if frame[series].nunique() > 1:
        axes.legend()
    return figure


def _label(axis: str, value: Any) -> str:
    short = {"expert_cache_slots": "slots", "stream_count": "stream(s)"}
    return f"{value} {short[axis]}" if axis in short else f"{NAMES.get(axis, axis)} {value}"


def line_panels(
    panels: Sequence[tuple[pd.DataFrame, str, str, str, str, str]], theme: Theme
) -> Figure:
    """Several line charts side by side: (frame, x, y, series, ylabel, title) each."""
    figure, axes = new_figure(min(4.1 * len(panels), 8.8), 3.1, 1, len(panels))
    for place, (frame, x, y, series, ylabel, title) in zip(
        np.atleast_1d(axes), panels, strict=True
    ):
        lines(frame, x, y, series, theme, ylabel=ylabel, title=title, axes=place)
    return figure


def latency_distributions(
    cells: Sequence[tuple[str, NDArray[Any]]], theme: Theme, *, title: str = ""
) -> Figure:
    """Cumulative share of calls against latency: (label, latency in ms) each."""
    figure, axes = new_figure(8.2, 3.3)
    for index, (label, values) in enumerate(cells):
        ordered = np.sort(values)
        shares = np.arange(1, len(ordered) + 1) / len(ordered)
        axes.step(
            ordered, shares, where="post", label=label, linestyle=theme.line(index),
            color=theme.mark(index)["color"],
        )  # fmt: skip
    axes.set_xscale("log")
    axes.set_ylim(0, 1.02)
    finish(axes, "latency, ms", "share of calls at or under it", title)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(FuncFormatter(_minor_log))
    axes.legend(loc="lower right")
    return figure


def expert_load(load: NDArray[Any], theme: Theme) -> Figure:
    """Heat map of the share of each layer's tokens that each expert took.   load : [L, E]."""
    shares = load / np.maximum(load.sum(axis=1, keepdims=True), 1)
    num_layers, num_experts = shares.shape
    figure, axes = new_figure(8.2, 1.1 + 0.42 * num_layers)
    image = axes.imshow(shares, cmap=theme.scale, vmin=0, aspect="auto")
    if num_experts <= 32:
        _write_shares(axes, shares, theme)
    axes.set_xticks(range(num_experts) if num_experts <= 32 else range(0, num_experts, 8))
    axes.set_yticks(range(num_layers), [f"layer {layer}" for layer in range(num_layers)])
    axes.set_xlabel("expert")
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    bar = figure.colorbar(image, ax=axes, pad=0.01, fraction=0.04)
    bar.set_label("share of the layer's tokens")
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0)
    return figure


def _write_shares(axes: Axes, shares: NDArray[Any], theme: Theme) -> None:
    """Percent in each field, in whichever colour stands out there."""
    strong = shares.max() * 0.55
    for (layer, expert), share in np.ndenumerate(shares):
        color = theme.surface if share > strong else theme.ink
        axes.text(
            expert, layer, f"{share * 100:.0f}", ha="center", va="center", color=color, fontsize=8
        )


def routing_by_layer(load: NDArray[Any], theme: Theme) -> Figure:
    """Entropy of expert load, and busiest over mean, a layer.   load : [L, E]."""
    from ..reference.metrics import entropy_bits, max_over_mean

    figure, (left, right) = new_figure(8.2, 2.7, 1, 2)
    layers = np.arange(len(load))
    most = float(np.log2(load.shape[1]))
    for axes, values, best, label in (
        (left, entropy_bits(load), most, "routing entropy, bits"),
        (right, max_over_mean(load), 1.0, "busiest expert over mean"),
    ):
        axes.bar(layers, values, width=0.55, color=theme.series[0])
        for layer, value in enumerate(values):
            axes.annotate(
                f"{value:.2f}", (layer, value), (0, -13), textcoords="offset points", ha="center",
                color=theme.surface, fontsize=8.5,
            )  # fmt: skip
        axes.axhline(best, color=theme.muted, linestyle="--", linewidth=1.2)
        axes.annotate(
            f"even load: {best:g}", (len(load) - 0.45, best), (0, 3), ha="right",
            textcoords="offset points", color=theme.muted, fontsize=8.5,
        )  # fmt: skip
        axes.set_xticks(layers, [str(layer) for layer in layers])
        finish(axes, "MoE layer", label)
        axes.set_ylim(0, max(values.max(), best) * 1.22)
    return figure


def capacity_cost(frame: pd.DataFrame, theme: Theme) -> Figure:
    """What capacity policies cost.   frame : cells that differ in batch size and capacity alone.

    Left: share of assignments dropped and moved. Middle: the output's relative error against the
    dropless output. Right: perplexity on held-out text.
    """
    policies = [policy for policy in frame["capacity"].unique() if policy != "none"]
    styles = {policy: theme.mark(index) for index, policy in enumerate(policies)}
    sizes = sorted(frame["batch_size"].unique())
    figure, (left, middle, right) = new_figure(8.6, 3.1 + 0.25 * (len(policies) // 6), 1, 3)
    for policy, style in styles.items():
        part = frame[frame["capacity"] == policy].sort_values("batch_size")
        x = [sizes.index(size) for size in part["batch_size"]]  # a failed cell leaves a gap
        left.plot(x, part["dropped_fraction"], linestyle="-", **style)
        left.plot(x, part["moved_fraction"], linestyle=":", mfc="none", **style)
        middle.plot(x, part["capacity_rel_error"], label=policy, **style)
    left.plot([], [], color=theme.muted, linestyle="-", marker="o", label="dropped")
    left.plot([], [], color=theme.muted, linestyle=":", marker="o", mfc="none", label="moved")
    left.legend(loc="upper right", ncols=2, fontsize=8)
    for axes, label in ((left, "share of assignments"), (middle, "relative error of the output")):
        finish(axes, "batch size", label)
        axes.set_xticks(range(len(sizes)), [str(size) for size in sizes])
        axes.set_ylim(0, max(axes.get_ylim()[1], 0.05) * 1.2)
    _perplexity_bars(right, frame, {"none": theme.muted, **{p: styles[p]["color"] for p in styles}})
    figure.legend(loc="outside lower center", ncols=6, handles=middle.get_lines())
    return figure


def _perplexity_bars(axes: Axes, frame: pd.DataFrame, colors: Mapping[str, str]) -> None:
    values = frame.groupby("capacity", sort=False)["perplexity"].first().dropna()
    names = sorted(values.index, key=lambda policy: (policy != "none", policy))
    heights = [values[name] for name in names]
    axes.bar(range(len(names)), heights, width=0.55, color=[colors[name] for name in names])
    for index, height in enumerate(heights):
        axes.annotate(
            f"{height:.3g}", (index, height), (0, 3), textcoords="offset points", ha="center",
            fontsize=8.5,
        )  # fmt: skip
    axes.set_xticks(range(len(names)), names)
    if len(names) > 4:
        for label in axes.get_xticklabels():
            label.set(rotation=45, ha="right", rotation_mode="anchor")
    axes.margins(y=0.15)
    finish(axes, "capacity policy", "perplexity on held-out text")


def against_floor(frame: pd.DataFrame, theme: Theme) -> Figure:
    """Measured median against the roofline floor, cell by cell, with multiples of the floor.

    Raises InputError where a cell is emulated.
    """
    refuse_emulated(frame)
    figure, axes = new_figure(6.2, 4.2)
    floor, latency = frame["roofline_floor_ms"].astype(float), frame["latency_p50_ms"].astype(float)
    for index, (backend, part) in enumerate(frame.groupby("backend", sort=True)):
        axes.scatter(
            part["roofline_floor_ms"], part["latency_p50_ms"], s=26, label=str(backend),
            alpha=0.85, linewidths=0, **theme.mark(index),
        )  # fmt: skip
    ends = np.array([floor.min() / 1.6, floor.max() * 1.6])
    for factor in (1, 10, 100):
        axes.plot(ends, ends * factor, color=theme.muted, linewidth=1.6 if factor == 1 else 0.9,
                  linestyle="-" if factor == 1 else ":")  # fmt: skip
        text = "the floor" if factor == 1 else f"{factor} times the floor"
        axes.annotate(
            text, (ends[1], ends[1] * factor), (-4, -22), textcoords="offset points", ha="right",
            va="top", color=theme.muted, fontsize=8.5,
        )  # fmt: skip
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(*ends)
    axes.set_ylim(floor.min() / 1.6, max(latency.max(), floor.max()) * 2)
    finish(axes, "roofline floor, ms", "measured median latency, ms")
    _plain_log(axes)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(FuncFormatter(lambda *_: ""))
    axes.legend(title="backend", loc="lower right")
    return figure


def _share_y(axes: Sequence[Axes]) -> None:
    """One scale for all panels: they are there to be compared."""
    limits = [place.get_ylim() for place in axes]
    low, high = min(limit[0] for limit in limits), max(limit[1] for limit in limits)
    for place in axes:
        place.set_ylim(low, high)
        _plain_log(place)


def _plain_log(axes: Axes) -> None:
    """Plain numbers at 1, 2 and 5 of each power of ten, so that a narrow range has labels too."""
    low, high = axes.get_ylim()
    powers = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    steps = (1, 2, 5) if len(powers) <= 3 else (1,)
    ticks = [step * 10.0**power for power in powers for step in steps]
    axes.yaxis.set_major_locator(FixedLocator([tick for tick in ticks if low <= tick <= high]))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _minor_log(value: float, _: int) -> str:
    leading = value / 10 ** np.floor(np.log10(value))
    return f"{value:g}" if round(leading) in (2, 5) else ""
