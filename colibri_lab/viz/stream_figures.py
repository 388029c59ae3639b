"""Pictures and tables of what the CUDA engine queues: an order, and no times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from .streams import KINDS, Recorder
from .theme import LIGHT, Theme, themed

if TYPE_CHECKING:
    import pandas as pd

SHORT = {
    "route_fused": "route", "dispatch_count": "count", "dispatch_scan": "scan",
    "dispatch_scatter_stable": "scatter", "fused_swiglu_tiled": "swiglu",
    "expert_gemm_tiled": "down", "aggregate_invert": "invert", "aggregate_gather": "gather",
}  # fmt: skip


def queue_figure(queues: Mapping[str, Recorder], device: str, theme: Theme = LIGHT) -> Figure:
    """Each queue as lanes, a stream each: order and dependencies, no times.

    queues : title of a panel -> what was queued.   device : where.
    """
    lanes = [1 + max(each.stream for each in log.queued) for log in queues.values()]
    with themed(theme):
        figure = Figure(figsize=(10.6, 1.4 + sum(0.75 + 0.55 * count for count in lanes)),
                        layout="constrained")  # fmt: skip
        axes = figure.subplots(len(lanes), 1, squeeze=False, sharex=True,
                               gridspec_kw={"height_ratios": [1.2 + n for n in lanes]})  # fmt: skip
        for place, (title, log) in zip(axes[:, 0], queues.items(), strict=True):
            _lanes(place, log, title, theme)
        axes[-1, 0].xaxis.set_major_locator(MaxNLocator(integer=True))
        axes[-1, 0].set_xlabel(
            "the first step at which it may run, each operation taken as one step: an order, no "
            "times\n(arrows: one stream waits for another; dotted: the host waits)"
        )
        patches = [Patch(color=theme.series[i], label=kind) for i, kind in enumerate(KINDS)]
        figure.legend(handles=patches, loc="outside lower center", ncols=4)
        figure.suptitle(f"{device}: what is queued, in which order, and what waits for what",
                        x=0.01, ha="left", fontsize=10.5)  # fmt: skip
    return figure


def _lanes(axes: Axes, log: Recorder, title: str, theme: Theme) -> None:
    size = 7.5 if log.longest <= 30 else 5.6
    for each in log.queued:
        color = theme.series[KINDS.index(each.kind)]
        axes.barh(-each.stream, 0.86, 0.62, left=each.step + 0.07, color=color)
        axes.text(
            each.step + 0.5, -each.stream, SHORT.get(each.label, ""), rotation=90, ha="center",
            va="center", fontsize=size, color=theme.surface,
        )  # fmt: skip
        for number in each.waits:
            source = log.queued[number]
            axes.annotate(
                "", (each.step + 0.07, -each.stream), (source.step + 0.93, -source.stream),
                arrowprops={"arrowstyle": "->", "color": theme.ink, "linewidth": 0.7},
            )  # fmt: skip
    for step in sorted({step for _, step in log.host_waits}):
        axes.axvline(step, color=theme.muted, linewidth=0.9, linestyle=":", zorder=0)
    count = 1 + max(each.stream for each in log.queued)
    axes.set_yticks([-lane for lane in range(count)], [f"stream {lane}" for lane in range(count)])
    axes.set_ylim(0.5 - count, 0.5)
    axes.set_title(f"{title}: {len(log.queued)} operations, the longest chain {log.longest}")
    axes.tick_params(length=0)


def waits_table(queues: Mapping[str, Recorder]) -> pd.DataFrame:
    """Of each queue: operations, the longest chain of dependencies, waits between streams."""
    import pandas as pd

    rows = {
        title: {
            "operations": len(log.queued),
            "longest_chain": log.longest,
            "waits_between_streams": sum(len(each.waits) for each in log.queued),
            "host_waits": len(log.host_waits),
            "copied_to_device_bytes": sum(
                each.num_bytes for each in log.queued if each.kind == KINDS[0]
            ),
        }
        for title, log in queues.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index")


def waiting(log: Recorder) -> list[str]:
    """What waits for what between streams, in words."""
    return [
        f"stream {each.stream}: {each.label} (number {each.number}) waits for "
        f"{log.queued[number].label} (number {number}) of stream {log.queued[number].stream}"
        for each in log.queued
        for number in each.waits
    ]
