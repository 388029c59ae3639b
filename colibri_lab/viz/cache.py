"""Figures and controls for the expert cache: curves over budgets, and a verdict beside them."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import ipywidgets as widgets
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ..cache import POLICIES, batches
from ..cache.cost import Tier
from ..cache.curves import cliff_bytes, miss_ratio_curves
from ..cache.replay import OPTIMUM
from ..cache.verdict import verdict
from ..errors import ColibriError
from ..reference import RoutingTrace
from .theme import LIGHT, LINES, MARKERS, Theme, finish, new_figure, themed

MIB = 1 << 20


def curve_figure(
    curves: Mapping[str, NDArray[np.float64]],
    budgets_bytes: Sequence[int],
    theme: Theme = LIGHT,
    *,
    cliff: int | None = None,
    budget: int | None = None,
    note: str = "",
) -> Figure:
    """Decode miss ratio against the cache's budget, a line each policy, the optimum heavy.

    cliff, budget : bytes, drawn as upright lines.   note : marks the figure, as for made traces.
    """
    x = np.array(budgets_bytes) / MIB
    with themed(theme):
        figure, axes = new_figure(7.4, 3.8)
        for index, (name, values) in enumerate(curves.items()):
            style = index % len(theme.series)
            axes.plot(
                x, values, label=name, linestyle=LINES[style], marker=MARKERS[style], markersize=4,
                color=theme.ink if name == OPTIMUM else theme.series[style],
                linewidth=2.6 if name == OPTIMUM else 1.6,
            )  # fmt: skip
        for place, label in ((cliff, "cliff"), (budget, "budget")):
            if place is not None:
                axes.axvline(place / MIB, color=theme.muted, linestyle=":", linewidth=1.4)
                axes.annotate(
                    label, (place / MIB, 1.02), (3, 0), textcoords="offset points",
                    color=theme.muted, fontsize=8.5, annotation_clip=False,
                )  # fmt: skip
        axes.set_ylim(0, 1.08)
        finish(axes, "expert-cache budget, MiB", "decode misses over look-ups", note)
        axes.legend(ncols=2, loc="upper right")
    return figure


def budget_steps(trace: RoutingTrace, count: int = 16) -> list[int]:
    """Even steps from one token's experts to all that the trace uses, in bytes."""
    calls = batches(trace)
    most = int(calls.key_bytes[np.unique(calls.keys)].sum())
    least = min(calls.largest_bytes, most)
    return [int(value) for value in np.linspace(least, most, count)]


class CachePanel(widgets.VBox):
    """Choose policies, a budget and what a miss costs; see the curves and the verdict.

    trace : any routing trace with expert sizes.
    """

    def __init__(self, trace: RoutingTrace) -> None:
        self._trace, self._calls = trace, batches(trace)
        self._budgets = budget_steps(trace)
        self._cliff = cliff_bytes(self._calls)
        self._curves: dict[str, NDArray[np.float64]] = {}
        self._build()
        for control in (self.policies, self.budget, self.read_gbps, self.layer_ms):
            control.observe(lambda _: self.refresh(), names="value")
        sliders = widgets.VBox([self.budget, self.read_gbps, self.layer_ms])
        super().__init__([widgets.HBox([self.policies, sliders]), self.picture, self.words])
        self.refresh()

    def _build(self) -> None:
        names = [OPTIMUM, *POLICIES]
        self.policies = widgets.SelectMultiple(
            options=names, value=(OPTIMUM, "lru", "lfu"), description="policies", rows=7
        )
        labels = [(f"{size / MIB:,.1f} MiB", size) for size in self._budgets]
        self.budget = widgets.SelectionSlider(
            options=labels, value=self._budgets[len(self._budgets) // 3], description="budget",
            continuous_update=False,
        )  # fmt: skip
        self.read_gbps = widgets.FloatLogSlider(
            value=2.0, base=10, min=-1, max=2, description="read GB/s", continuous_update=False
        )
        self.layer_ms = widgets.FloatLogSlider(
            value=2.0, base=10, min=-2, max=2, description="layer ms", continuous_update=False
        )
        self.picture = widgets.Image(format="png", layout={"max_width": "760px"})
        self.words = widgets.HTML()

    def refresh(self) -> None:
        """Draw and judge what is chosen."""
        try:
            self._draw()
            self.words.value = f"<p style='max-width:46rem'>{escape(self._judge())}</p>"
        except ColibriError as error:
            self.words.value = f"<pre>{escape(str(error))}</pre>"

    def _draw(self) -> None:
        chosen = list(self.policies.value)
        missing = [name for name in chosen if name not in self._curves]
        if missing:
            self._curves |= miss_ratio_curves(self._calls, missing, self._budgets)
        note = self._trace.source if "synthetic" in self._trace.source else ""
        figure = curve_figure(
            {name: self._curves[name] for name in chosen}, self._budgets,
            cliff=self._cliff, budget=self.budget.value, note=note,
        )  # fmt: skip
        buffer = io.BytesIO()
        with themed(LIGHT):
            figure.savefig(buffer, format="png", dpi=110)
        self.picture.value = buffer.getvalue()

    def _judge(self) -> str:
        current = next((name for name in self.policies.value if name != OPTIMUM), "lru")
        tier = Tier(gbps=self.read_gbps.value, latency_s=1e-4, concurrency=4)
        return verdict(
            self._trace, self.budget.value, tier, self.layer_ms.value / 1e3, current
        ).text


def results_frame(results: Sequence[Any]) -> Any:
    """Replays as a table."""
    from dataclasses import asdict

    import pandas as pd

    return pd.DataFrame([asdict(result) for result in results])
