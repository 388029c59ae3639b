"""Figures and controls for the expert cache: curves over budgets, and a verdict beside them."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import ipywidgets as widgets
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ..cache import POLICIES, batches
from ..cache.cost import Costs, Tier
from ..cache.curves import cliff_bytes, miss_ratio_curves
from ..cache.replay import OPTIMUM
from ..cache.verdict import verdict
from ..errors import ColibriError, InputError
from ..reference import RoutingTrace
from .theme import LIGHT, LINES, MARKERS, Theme, finish, new_figure, themed

MIB = 1 << 20
MARKED = ("synthetic", "interleaved")  # in a trace's source


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
        if curves:
            axes.legend(ncols=2, loc="upper right")
    return figure


def mark_of(trace: RoutingTrace) -> str:
    """What a figure must say of a trace that no engine served: synthetic, or put together."""
    return trace.source if any(word in trace.source for word in MARKED) else ""


def layer_figure(
    curves: NDArray[np.float64], slots: Sequence[int], theme: Theme = LIGHT, *, note: str = ""
) -> Figure:
    """Decode miss ratios [L, slots] as a map, a row each layer with a cache of its own."""
    with themed(theme):
        figure, axes = new_figure(7.4, 1.4 + 0.12 * max(len(curves), 8))
        edges = np.arange(len(slots) + 1) - 0.5
        rows = np.arange(len(curves) + 1) - 0.5
        drawn = axes.pcolormesh(edges, rows, curves, cmap="viridis_r", vmin=0, vmax=1)
        drawn.set_edgecolor("face")  # else pages show seams
        ticks = np.unique(np.linspace(0, len(slots) - 1, 9).astype(int))
        axes.set_xticks(ticks, [str(slots[tick]) for tick in ticks])
        axes.yaxis.get_major_locator().set_params(integer=True)
        axes.invert_yaxis()
        finish(axes, "experts that a layer's own cache holds", "layer", note)
        axes.grid(visible=False)
        figure.colorbar(drawn, ax=axes, label="decode misses over look-ups")
    return figure


def budget_steps(trace: RoutingTrace, count: int = 16) -> list[int]:
    """Even steps from one token's experts to all that the trace uses, in bytes."""
    calls = batches(trace)
    most = calls.used_bytes
    least = min(calls.largest_bytes, most)
    return [int(value) for value in np.linspace(least, most, count)]


@dataclass
class _View:
    """One trace at one top-k, and what was drawn of it so far."""

    trace: RoutingTrace

    def __post_init__(self) -> None:
        self.calls = batches(self.trace)
        self.budgets = budget_steps(self.trace)
        self.cliff = cliff_bytes(self.calls)
        self.curves: dict[str, NDArray[np.float64]] = {}

    def curves_of(self, policies: Sequence[str]) -> dict[str, NDArray[np.float64]]:
        missing = [name for name in policies if name not in self.curves]
        if missing:
            self.curves |= miss_ratio_curves(self.calls, missing, self.budgets)
        return {name: self.curves[name] for name in policies}


class CachePanel(widgets.VBox):
    """Choose a trace, its top-k, policies, a budget and what a miss costs; see curves and verdict.

    traces : name -> any routing trace with expert sizes; or one trace.
    """

    def __init__(self, traces: RoutingTrace | Mapping[str, RoutingTrace]) -> None:
        named: dict[str, Any] = {"trace": traces}
        if isinstance(traces, Mapping):
            named = dict(traces)
        if not named or not all(isinstance(trace, RoutingTrace) for trace in named.values()):
            raise InputError(
                "the panel needs a trace",
                expected="a routing trace, or a mapping of names to some",
                found={name: type(trace).__name__ for name, trace in named.items()} or "none",
            )
        self._traces, self._views = named, dict[tuple[str, int], _View]()
        self._build()
        for control in (self.trace, self.top_k):
            control.observe(lambda _: self._choose(), names="value")
        for control in (self.policies, self.budget, *self._costs):
            control.observe(lambda _: self.refresh(), names="value")
        sliders = widgets.VBox([self.trace, self.top_k, self.budget, *self._costs])
        super().__init__([widgets.HBox([self.policies, sliders]), self.picture, self.words])
        self._choose()

    def _build(self) -> None:
        self.trace = widgets.Dropdown(options=list(self._traces), description="trace")
        self.top_k = widgets.IntSlider(
            value=1, min=1, max=1, description="top-k", continuous_update=False
        )
        names = [OPTIMUM, *POLICIES]
        self.policies = widgets.SelectMultiple(
            options=names, value=(OPTIMUM, "lru", "lfu"), description="policies", rows=9
        )
        self.budget = widgets.SelectionSlider(
            options=[("all", 0)], description="budget", continuous_update=False
        )
        self.read_gbps = _log_slider("read GB/s", 2.0, -1, 2)
        self.latency_us = _log_slider("latency us", 100.0, 0, 4)
        self.layer_ms = _log_slider("layer ms", 2.0, -2, 2)
        self._costs = (self.read_gbps, self.latency_us, self.layer_ms)
        self.picture = widgets.Image(format="png", layout={"max_width": "760px"})
        self.words = widgets.HTML()
        self._choosing = False

    def _choose(self) -> None:
        """Another trace or top-k: its budgets, then all that follows from it."""
        if self._choosing:
            return
        self._choosing = True  # each control that is set here would start a drawing of its own
        try:
            most = self._traces[self.trace.value].top_k
            if self.top_k.max != most:
                self.top_k.max = most
                self.top_k.value = most
            self._offer(self._view().budgets)
        except ColibriError as error:
            self._complain(error)
            return
        finally:
            self._choosing = False
        self.refresh()

    def _offer(self, budgets: Sequence[int]) -> None:
        """Let these be chosen; the slider stays where it was, if it has as many places."""
        place = self.budget.index or 0
        chosen = place if len(self.budget.options) == len(budgets) else len(budgets) // 3
        self.budget.options = [(f"{size / MIB:,.1f} MiB", size) for size in budgets]
        self.budget.index = chosen

    def _complain(self, error: ColibriError) -> None:
        """In place of a picture, which would be of something else."""
        self.picture.value = b""
        self.words.value = f"<pre>{escape(str(error))}</pre>"

    def _view(self) -> _View:
        key = (self.trace.value, self.top_k.value)
        if key not in self._views:
            self._views[key] = _View(self._traces[key[0]].best(key[1]))
        return self._views[key]

    def refresh(self) -> None:
        """Draw and judge what is chosen."""
        if self._choosing:
            return
        try:
            self._draw()
            self.words.value = f"<p style='max-width:46rem'>{escape(self._judge())}</p>"
        except ColibriError as error:
            self._complain(error)

    def _draw(self) -> None:
        view = self._view()
        figure = curve_figure(
            view.curves_of(self.policies.value), view.budgets, cliff=view.cliff,
            budget=self.budget.value, note=mark_of(view.trace),
        )  # fmt: skip
        buffer = io.BytesIO()
        with themed(LIGHT):
            figure.savefig(buffer, format="png", dpi=110)
        self.picture.value = buffer.getvalue()

    def _judge(self) -> str:
        current = next((name for name in self.policies.value if name != OPTIMUM), "lru")
        tier = Tier(self.read_gbps.value, self.latency_us.value / 1e6, concurrency=4)
        costs = Costs(tier, self.layer_ms.value / 1e3)
        return verdict(self._view().trace, self.budget.value, costs, current).text


def _log_slider(name: str, value: float, low: float, high: float) -> widgets.FloatLogSlider:
    return widgets.FloatLogSlider(
        value=value, base=10, min=low, max=high, description=name, continuous_update=False
    )


def results_frame(results: Sequence[Any]) -> Any:
    """Replays as a table."""
    from dataclasses import asdict

    import pandas as pd

    return pd.DataFrame([asdict(result) for result in results])
