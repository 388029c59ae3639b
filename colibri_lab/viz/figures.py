"""The report's figures: which cells each shows, its caption, and the same in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from . import plots
from .device import counter_axis, device_counters, device_sentence
from .select import NAMES, around, base_cell, comparable, emulated, measured, others, timed
from .theme import Draw

if TYPE_CHECKING:
    import pandas as pd

    from ..experiments import Run

SWEPT = ("batch_size", "top_k", "stream_count", "capacity")
SHORT = {"expert_cache_slots": "slots a layer"}


@dataclass(frozen=True)
class ReportFigure:
    """name : for links and files.   caption : how to read it.   alt : what it shows, in words."""

    name: str
    title: str
    caption: str
    alt: str
    draw: Draw


def report_figures(run: Run) -> Iterator[ReportFigure]:
    """The figures that the run has the cells for, in the report's order."""
    view = _View(run)
    makers: tuple[Callable[[_View], ReportFigure | None], ...] = (
        latency, distributions, throughput, cache, load, routing, capacity, floor,
    )  # fmt: skip
    for make in makers:
        figure = make(view)
        if figure is not None:
            yield figure
    yield from device_figures(run)


class _View:
    """A run's table, base and samples, read once."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.frame = comparable(run)
        self.timed = timed(self.frame)
        self.base = base_cell(run, self.frame)

    def cells(self, *varied: str) -> pd.DataFrame:
        return around(self.frame, self.base, *varied)

    def timed_cells(self, *varied: str) -> pd.DataFrame:
        """Of an emulated device there are none."""
        return around(self.timed, self.base, *varied)

    def latency_ms(self, cell_id: str) -> Any:
        return self.run.samples(cell_id)["latency_ns"] / 1e6

    def detail(self) -> tuple[str, Any] | None:
        """The base cell in words and its expert_load [L, E]; the first cell where it has none."""
        cells = self.cells()
        cells = self.frame if cells.empty else cells
        if cells.empty:
            return None
        cell = cells.iloc[0]
        return _first_upper(others(cell)), self.run.samples(cell["cell_id"])["expert_load"]


def latency(view: _View) -> ReportFigure | None:
    panels = {axis: cells for axis in SWEPT if len(cells := view.timed_cells(axis)) > 1}
    if not panels:
        return None
    ids = {cell for cells in panels.values() for cell in cells["cell_id"]}
    samples = {cell: view.latency_ms(cell) for cell in ids}
    words = [
        f"against {NAMES[axis]}: "
        + ", ".join(
            f"{value} gives {p50:.3g} ms"
            for value, p50 in zip(cells[axis], cells["latency_p50_ms"], strict=True)
        )
        for axis, cells in panels.items()
    ]
    return ReportFigure(
        "latency",
        "Latency of a call",
        "One call runs the routed experts of all MoE layers. Dot: median of the timed calls. Thick "
        "bar: the middle half. Thin line: 1st to 99th percentile. Grey mark: the roofline floor "
        f"of the same calls. Where an axis stands still: {others(view.base)}.",
        "Median latency " + "; ".join(words) + ".",
        partial(plots.latency_by_axis, panels, samples),
    )


def distributions(view: _View) -> ReportFigure | None:
    cells = view.timed_cells("batch_size")
    if cells.empty:
        return None
    shown = [
        (f"batch {size}", view.latency_ms(cell))
        for size, cell in zip(cells["batch_size"], cells["cell_id"], strict=True)
    ][:6]
    tails = ", ".join(
        f"{label}: 99th percentile {np.percentile(values, 99) / np.median(values):.1f} times the "
        "median"
        for label, values in shown
    )
    return ReportFigure(
        "distribution",
        "The whole distribution",
        "Share of calls that took so long or less; a steep line is a steady one, a long upper end "
        f"is the tail. {_first_upper(others(view.base, 'batch_size'))}.",
        f"Cumulative distributions of latency by batch size. {tails}.",
        partial(plots.latency_distributions, shown),
    )


def throughput(view: _View) -> ReportFigure | None:
    panels = []
    for series in ("top_k", "stream_count", "expert_cache_slots"):
        cells = view.timed_cells("batch_size", series)
        if cells["batch_size"].nunique() > 1 and cells[series].nunique() > 1:
            title = f"by {SHORT.get(series, NAMES[series])}"
            panels.append((cells, "batch_size", "tokens_per_s", series, "tokens/s", title))
    if not panels:
        return None
    best = max((cells.loc[cells["tokens_per_s"].idxmax()] for cells, *_ in panels),
               key=lambda cell: cell["tokens_per_s"])  # fmt: skip
    return ReportFigure(
        "throughput",
        "Throughput",
        "Tokens of a call over its median latency, MoE layers alone: attention and embeddings are "
        "not in it.",
        f"Tokens a second against batch size. The highest is {best['tokens_per_s']:,.0f} at batch "
        f"{best['batch_size']}, top-{best['top_k']}, {best['stream_count']} stream(s), "
        f"{best['expert_cache_slots']} slots.",
        partial(plots.line_panels, panels),
    )


def cache(view: _View) -> ReportFigure | None:
    cells = view.cells("batch_size", "expert_cache_slots").dropna(subset=["expert_miss_ratio"])
    panels = []
    if cells["expert_cache_slots"].nunique() > 1:
        panels.append((cells, "expert_cache_slots", "expert_miss_ratio", "batch_size",
                       "misses over look-ups", "miss ratio"))  # fmt: skip
    if cells["batch_size"].nunique() > 1:
        panels.append((cells, "batch_size", "expert_loads_per_request", "expert_cache_slots",
                       "expert loads a request", "loads"))  # fmt: skip
    if not panels:
        return None
    words = ", ".join(
        f"{cell['expert_cache_slots']} slots at batch {cell['batch_size']}: "
        f"{cell['expert_miss_ratio']:.1%}"
        for _, cell in view.cells("expert_cache_slots")
        .dropna(subset=["expert_miss_ratio"])
        .iterrows()
    )
    return ReportFigure(
        "cache",
        "Expert cache",
        "Left: share of look-ups that did not find the expert in memory. Right: experts read in a "
        "request, all layers together. A request is one call; slots are counted a layer.",
        f"Expert-cache misses and loads. Miss ratio with {words}.",
        partial(plots.line_panels, panels),
    )


def load(view: _View) -> ReportFigure | None:
    detail = view.detail()
    if detail is None:
        return None
    which, counts = detail
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    words = ", ".join(
        f"layer {layer}: expert {row.argmax()} takes {row.max():.0%}, expert {row.argmin()} "
        f"{row.min():.0%}"
        for layer, row in enumerate(shares)
    )
    even = 1 / counts.shape[1]
    return ReportFigure(
        "load",
        "Expert load",
        f"Percent of a layer's assignments that each expert took; even load is {even:.1%}. "
        f"{which}.",
        f"Heat map of expert load by layer. {words}.",
        partial(plots.expert_load, counts),
    )


def routing(view: _View) -> ReportFigure | None:
    from ..reference.metrics import entropy_bits

    detail = view.detail()
    if detail is None:
        return None
    which, counts = detail
    words = ", ".join(f"layer {i}: {bits:.2f} bits" for i, bits in enumerate(entropy_bits(counts)))
    return ReportFigure(
        "routing",
        "Routing balance",
        "Left: entropy of the distribution of load over experts. Right: the busiest expert's "
        f"tokens over the mean. Dashed: what even load would give. {which}.",
        f"Routing entropy by layer: {words}; even load over {counts.shape[1]} experts would be "
        f"{np.log2(counts.shape[1]):.2f} bits.",
        partial(plots.routing_by_layer, counts),
    )


def capacity(view: _View) -> ReportFigure | None:
    cells = view.cells("batch_size", "capacity")
    if cells["capacity"].nunique() < 2:
        return None
    words = "; ".join(
        f"{cell['capacity']} at batch {cell['batch_size']} drops {cell['dropped_fraction']:.1%}, "
        f"moves {cell['moved_fraction']:.1%}, relative error {cell['capacity_rel_error']:.2f}"
        for _, cell in cells[cells["capacity"] != "none"].iterrows()
    )
    size = (view.run.manifest.get("perplexity") or {}).get("tokens_per_layer_call")
    read = (
        f"Perplexity is of the whole model, {size:,} tokens a layer call, and so " if size else ""
    )
    return ReportFigure(
        "capacity",
        "What a capacity policy costs",
        "Left: assignments dropped (full) and moved (dotted). Middle: the MoE output's relative "
        "error against dropless. Right: perplexity on held-out text. "
        + (f"{read}not of these batches." if read else ""),
        f"Cost of capacity policies. {words}.",
        partial(plots.capacity_cost, cells),
    )


def floor(view: _View) -> ReportFigure | None:
    cells = view.timed.dropna(subset=["roofline_floor_ms"])
    if cells.empty:
        return None
    factors = (cells["latency_p50_ms"] / cells["roofline_floor_ms"]).astype(float)
    return ReportFigure(
        "floor",
        "Distance from the machine's limits",
        "Each mark is a cell. The floor is the larger of bytes over measured bandwidth and "
        "operations over measured arithmetic; its bytes are those of the experts that were active.",
        f"Measured latency against the roofline floor: {factors.min():.1f} to {factors.max():.0f} "
        f"times the floor, the median {factors.median():.0f} times.",
        partial(plots.against_floor, cells),
    )


def device_figures(run: Run) -> Iterator[ReportFigure]:
    """For each emulated device its counters and its GPU's floor."""
    for number, (device, cells) in enumerate(emulated(measured(run)).groupby("device", sort=True)):
        base = base_cell(run, cells)
        x, series = counter_axis(cells)
        shown = around(cells, base, x, series)
        still = _first_upper(others(base, x, series))
        yield ReportFigure(
            f"device-{number}" if number else "device",
            f"Counters of {device}",
            "Counters of one observed call; nothing here is a time. Above left: what loads and "
            "stores of global memory ask for, what of it the model of the GPU's L2 missed (full "
            "and dashed), and the bytes that the floor counts (dotted; a mean of the timed calls). "
            "Below right: the floor by the GPU's data sheet, not by a measurement. Copies into "
            "the expert slots are in none of them, and the model of the L2 does not know of them: "
            f"a slot that took another expert may be found there. {still}.",
            device_sentence(str(device), shown),
            partial(device_counters, shown, x, series),
        )


def _first_upper(text: str) -> str:
    return text[:1].upper() + text[1:]
