"""Two looks of one figure, and turning figures into text that a page can hold."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

MARKERS = ("o", "s", "^", "D", "v", "P")
LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)))


@dataclass(frozen=True)
class Theme:
    """Colours of a figure.

    series : for categories, in fixed order; told apart by colour-blind readers, and always drawn
        with a marker of their own (Okabe and Ito, 2008; lifted where the surface is dark).
    low, high : ends of the scale for magnitudes.
    """

    name: str
    surface: str
    ink: str
    muted: str
    grid: str
    series: tuple[str, ...]
    low: str
    high: str

    @property
    def scale(self) -> LinearSegmentedColormap:
        """Magnitudes: from the surface to one saturated hue."""
        return LinearSegmentedColormap.from_list(f"colibri-{self.name}", [self.low, self.high])

    def mark(self, index: int) -> dict[str, Any]:
        """Colour and marker of the index-th category; no two of the first 36 share both."""
        turn, place = divmod(index, len(self.series))
        return {"color": self.series[place], "marker": MARKERS[(place + turn) % len(MARKERS)]}

    def line(self, index: int) -> Any:
        """Line style of the index-th category."""
        return LINES[(index + index // len(self.series)) % len(LINES)]


LIGHT = Theme(
    "light", "#ffffff", "#1c2430", "#5b6675", "#e3e7ec",
    ("#0072b2", "#d55e00", "#009e73", "#aa4499", "#b58900", "#56748f"),
    "#f1f6fa", "#084b83",
)  # fmt: skip
DARK = Theme(
    "dark", "#141a22", "#e8edf3", "#9aa7b6", "#2b3543",
    ("#56b4e9", "#ff9e5e", "#3fcf9f", "#e08fd0", "#f0c94a", "#9fb4c8"),
    "#1d2733", "#7cc4f5",
)  # fmt: skip


@contextmanager
def themed(theme: Theme) -> Iterator[None]:
    """Within the block, new figures have the theme's colours and the report's type sizes."""
    settings: Any = {
        "figure.facecolor": theme.surface,
        "axes.facecolor": theme.surface,
        "savefig.facecolor": theme.surface,
        "text.color": theme.ink,
        "axes.labelcolor": theme.ink,
        "axes.titlecolor": theme.ink,
        "axes.edgecolor": theme.muted,
        "xtick.color": theme.muted,
        "ytick.color": theme.muted,
        "xtick.labelcolor": theme.ink,
        "ytick.labelcolor": theme.ink,
        "grid.color": theme.grid,
        "font.family": "DejaVu Sans",
        "font.size": 9.5,
        "axes.titlesize": 10.5,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "legend.frameon": False,
        "legend.fontsize": 9,
        "lines.linewidth": 1.8,
        "lines.markersize": 5.5,
        "svg.fonttype": "none",
        "svg.hashsalt": "colibri_lab",
    }
    with rc_context(settings):
        yield


def new_figure(width: float, height: float, rows: int = 1, columns: int = 1) -> tuple[Figure, Any]:
    """A figure of its own, unknown to pyplot, so that nothing has to be closed; and its axes."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns)


def finish(axes: Axes, xlabel: str, ylabel: str, title: str = "") -> None:
    """Labels, and a quiet grid along the values."""
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    axes.set_title(title)
    axes.grid(axis="y", linewidth=0.8)
    axes.tick_params(which="both", length=0)


Draw = Callable[[Theme], Figure]


def svg(draw: Draw, theme: Theme) -> bytes:
    """A figure as SVG, the same bytes for the same data."""
    with themed(theme):
        buffer = io.BytesIO()
        draw(theme).savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return buffer.getvalue()


def data_uri(content: bytes, kind: str = "image/svg+xml") -> str:
    """Content that needs no file beside the page."""
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"
