"""What an emulated device counted, and its GPU's floor: in place of times, which it has not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .plots import lines
from .select import NAMES
from .theme import Theme, finish, new_figure

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

MIB, US = 2**20, 1e3  # of bytes; microseconds in a millisecond
VARIED = (
    "batch_size", "top_k", "stream_count", "expert_cache_slots", "capacity", "seq_len",
    "cache_policy",
)  # fmt: skip
# Column, heading, format of the table of emulated cells.
COLUMNS = (
    ("batch_size", "batch", "{}"),
    ("seq_len", "tokens a seq.", "{}"),
    ("top_k", "top-k", "{}"),
    ("stream_count", "streams", "{}"),
    ("capacity", "capacity", "{}"),
    ("expert_cache_slots", "slots", "{}"),
    ("device_bytes_moved", "bytes asked for", "{:,.0f}"),
    ("device_dram_bytes", "past the L2", "{:,.0f}"),
    ("bytes_moved", "floor's bytes", "{:,.0f}"),
    ("device_sectors_per_request", "sectors a request", "{:.2f}"),
    ("device_bank_conflicts", "bank conflicts", "{:,.0f}"),
    ("roofline_floor_ms", "GPU's floor ms", "{:.5f}"),
    ("expert_miss_ratio", "miss ratio", "{:.3f}"),
    ("expert_loads_per_request", "loads", "{:.2f}"),
    ("dropped_fraction", "dropped", "{:.3f}"),
    ("moved_fraction", "moved", "{:.3f}"),
    ("output_rel_error", "check error", "{:.1e}"),
)


def counter_axis(cells: pd.DataFrame) -> tuple[str, str]:
    """The two axes that vary most: one to draw along, one for lines."""
    by_values = sorted(VARIED, key=lambda axis: -cells[axis].nunique())
    x, series = by_values[:2]
    return x, series


def device_counters(cells: pd.DataFrame, x: str, series: str, theme: Theme) -> Figure:
    """Bytes, sectors, bank conflicts and the GPU's floor along an axis.

    cells : of one emulated device, which is named above the panels.
    """
    figure, axes = new_figure(8.4, 6.0, 2, 2)
    shown = cells.assign(floor_us=cells["roofline_floor_ms"] * US)
    _bytes(axes[0, 0], shown, x, series, theme)
    for place, column, label in (
        (axes[0, 1], "device_sectors_per_request", "32-byte sectors a request"),
        (axes[1, 0], "device_bank_conflicts", "bank conflicts a call"),
        (axes[1, 1], "floor_us", "floor by the data sheet, µs"),
    ):
        lines(shown, x, column, series, theme, ylabel=label, axes=place)
        place.set_ylim(0, max(1.1 * shown[column].max(), 1e-9))
    device = ", ".join(sorted(cells["device"].unique()))
    figure.suptitle(f"{device}: counters and a floor, no times", x=0.01, ha="left", fontsize=10.5)
    return figure


def _bytes(axes: Axes, cells: pd.DataFrame, x: str, series: str, theme: Theme) -> None:
    """Asked for, past the L2, and what the floor counts; a colour a value of `series`."""
    steps = sorted(cells[x].unique())
    styles: Sequence[tuple[str, str, dict[str, Any]]] = (
        ("device_bytes_moved", "asked for", {"linestyle": "-"}),
        ("device_dram_bytes", "past the L2", {"linestyle": "--", "mfc": "none"}),
        ("bytes_moved", "floor's", {"linestyle": ":", "marker": ""}),
    )
    for index, (_, part) in enumerate(cells.sort_values(x).groupby(series, sort=True)):
        places = [steps.index(value) for value in part[x]]
        for column, _, style in styles:
            axes.plot(places, part[column].astype(float) / MIB, **{**theme.mark(index), **style})
    for _, label, style in styles:
        axes.plot([], [], label=label, **{"color": theme.muted, "marker": "o", **style})
    axes.set_xticks(range(len(steps)), [str(step) for step in steps])
    finish(axes, NAMES[x], "global memory a call, MiB")
    axes.set_ylim(bottom=0)
    axes.legend()


def device_sentence(device: str, cells: pd.DataFrame) -> str:
    """Counters and floor of the cells that ask for least and most, in words."""
    seen = cells.dropna(subset=["device_bytes_moved"]).sort_values("device_bytes_moved")
    if seen.empty:
        return f"{device}: no cell was observed."
    ends = [seen.iloc[0], seen.iloc[-1]] if len(seen) > 1 else [seen.iloc[0]]
    said = "; ".join(_counted(cell) for cell in ends)
    return f"On {device}, where nothing was timed: {said}."


def _counted(cell: pd.Series) -> str:
    floor = cell["roofline_floor_ms"]
    limit = f"; the GPU's data sheet allows {floor * US:.2f} µs at best" if floor == floor else ""
    return (
        f"a call of batch {cell['batch_size']} with top-{cell['top_k']} asks for "
        f"{cell['device_bytes_moved'] / MIB:.2f} MiB of global memory, "
        f"{cell['device_sectors_per_request']:.2f} sectors a request, with "
        f"{cell['device_bank_conflicts']:,.0f} bank conflicts{limit}"
    )
