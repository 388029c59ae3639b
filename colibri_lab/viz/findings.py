"""What a run shows, in words: each sentence from figures of the run, and no more than they say."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from .device import device_sentence
from .select import around, base_cell, comparable, emulated, measured, timed

if TYPE_CHECKING:
    import pandas as pd

    from ..experiments import Run

NOISE = 0.05  # medians that differ by less are called alike


def findings(run: Run) -> list[str]:
    """Sentences on batch size, expert cache, streams, top-k, capacity and the floor.

    A sentence is left out where the run has no two cells to compare. Cells of an emulated device
    have a sentence of their own, of counters: they are compared with no time.
    """
    frame = comparable(run)
    if frame.empty:
        return ["No cell was measured."]
    base = base_cell(run, frame)
    call_tokens = (run.manifest.get("perplexity") or {}).get("tokens_per_layer_call")
    rules: tuple[Callable[[pd.DataFrame, dict[str, Any]], str | None], ...] = (
        _batch, _cache, _cache_and_batch, _streams, _top_k,
        partial(_capacity, call_tokens=call_tokens), _floor,
    )  # fmt: skip
    said = [sentence for rule in rules if (sentence := rule(frame, base)) is not None]
    by_device = emulated(measured(run)).groupby("device", sort=True)
    return said + [device_sentence(str(name), cells) for name, cells in by_device]


def _ends(frame: pd.DataFrame, base: dict[str, Any], axis: str) -> tuple[Any, Any] | None:
    """The first and last cell along an axis, or None where there are not two."""
    cells = around(frame, base, axis)
    return (cells.iloc[0], cells.iloc[-1]) if len(cells) > 1 else None


def _batch(frame: pd.DataFrame, base: dict[str, Any]) -> str | None:
    ends = _ends(timed(frame), base, "batch_size")
    if ends is None:
        return None
    small, large = ends
    return (
        f"From batch {small['batch_size']} to {large['batch_size']} the median latency of a call "
        f"goes from {small['latency_p50_ms']:.2f} to {large['latency_p50_ms']:.2f} ms "
        f"({_times(large['latency_p50_ms'], small['latency_p50_ms'])}), and throughput from "
        f"{small['tokens_per_s']:,.0f} to {large['tokens_per_s']:,.0f} tokens/s "
        f"({_times(large['tokens_per_s'], small['tokens_per_s'])})."
    )


def _cache(frame: pd.DataFrame, base: dict[str, Any]) -> str | None:
    ends = _ends(frame, base, "expert_cache_slots")
    if ends is None:
        return None
    few, many = ends
    return (
        f"With {few['expert_cache_slots']} expert-cache slots a layer, "
        f"{few['expert_miss_ratio']:.0%} of the look-ups miss; with {many['expert_cache_slots']}, "
        f"{many['expert_miss_ratio']:.1%}.{_cache_latency(few, many)}"
    )


def _cache_latency(few: pd.Series, many: pd.Series) -> str:
    if np.isnan(few["latency_p50_ms"]) or np.isnan(many["latency_p50_ms"]):
        return ""
    return (
        f" Median latency: {few['latency_p50_ms']:.2f} and {many['latency_p50_ms']:.2f} ms, "
        f"{_compared(many, few)}."
    )


def _cache_and_batch(frame: pd.DataFrame, base: dict[str, Any]) -> str | None:
    cells = around(frame, base, "batch_size").dropna(subset=["expert_loads_per_request"])
    if len(cells) < 2:
        return None
    loads = cells["expert_loads_per_request"].astype(float)
    how = "grow with the batch" if (np.diff(loads) > 0).all() else "by batch size"
    words = ", ".join(
        f"{load:.1f} at batch {size}" for size, load in zip(cells["batch_size"], loads, strict=True)
    )
    return f"Expert loads a request {how} ({base['expert_cache_slots']} slots a layer): {words}."


def _streams(frame: pd.DataFrame, base: dict[str, Any]) -> str | None:
    ends = _ends(timed(frame), base, "stream_count")
    if ends is None:
        return None
    one, many = ends
    verdict = _compared(many, one)
    return (
        f"{many['stream_count']} streams instead of {one['stream_count']}: median "
        f"{one['latency_p50_ms']:.2f} to {many['latency_p50_ms']:.2f} ms, {verdict}; 99th "
        f"percentile {one['latency_p99_ms']:.2f} to {many['latency_p99_ms']:.2f} ms."
    )


def _top_k(frame: pd.DataFrame, base: dict[str, Any]) -> str | None:
    cells = around(timed(frame), base, "top_k")
    if len(cells) < 2:
        return None
    parts = [
        f"top-{cell['top_k']}: {cell['latency_p50_ms']:.2f} ms, perplexity {cell['perplexity']:.2f}"
        if cell["perplexity"] == cell["perplexity"]
        else f"top-{cell['top_k']}: {cell['latency_p50_ms']:.2f} ms"
        for _, cell in cells.iterrows()
    ]
    return f"By experts a token: {'; '.join(parts)}.{_best_k(cells)}"


def _best_k(cells: pd.DataFrame) -> str:
    """Which top-k reads best: more experts than a model was trained with may do it no good."""
    known = cells.dropna(subset=["perplexity"])
    if len(known) < 2:
        return ""
    best = known.loc[known["perplexity"].astype(float).idxmin(), "top_k"]
    beyond = "; more experts than that do not lower it" if best < known["top_k"].max() else ""
    return f" Perplexity is lowest with top-{best}{beyond}."


def _capacity(
    frame: pd.DataFrame, base: dict[str, Any], call_tokens: int | None = None
) -> str | None:
    """call_tokens : of the layer calls that perplexity is taken with; a policy depends on it."""
    cells = around(frame, base, "capacity")
    if len(cells) < 2:
        return None
    dropless = cells[cells["capacity"] == "none"]
    parts = []
    for _, cell in cells[cells["capacity"] != "none"].iterrows():
        words = (
            f"{cell['capacity']} drops {cell['dropped_fraction']:.1%} and moves "
            f"{cell['moved_fraction']:.1%} of the assignments, which puts the output "
            f"{cell['capacity_rel_error']:.0%} off"
        )
        before = dropless["perplexity"].iloc[0] if len(dropless) else np.nan
        if before == before and cell["perplexity"] == cell["perplexity"]:
            words += f" (perplexity {cell['perplexity']:.2f} instead of {before:.2f})"
        parts.append(words)
    words = "; ".join(parts)
    if call_tokens and "(perplexity" in words:
        words += f". Perplexity is of layer calls of {call_tokens:,} tokens, not of these"
    return f"At batch {base['batch_size']}, {words}."


def _floor(frame: pd.DataFrame, base: dict[str, Any]) -> str | None:  # noqa: ARG001 - as its kind
    cells = timed(frame).dropna(subset=["roofline_floor_ms"])
    if cells.empty:
        return None
    factors = (cells["latency_p50_ms"] / cells["roofline_floor_ms"]).astype(float)
    under = int((factors < 1).sum())
    if under:
        return (
            f"{under} of {len(factors)} cells ran faster than the floor of this machine: the floor "
            "or the time is wrong, and neither should be relied on."
        )
    return (
        f"The median cell takes {factors.median():.0f} times what bandwidth and arithmetic alone "
        f"would ask ({factors.min():.1f} to {factors.max():.0f} times): "
        + (
            "the rest, such as overhead a call, expert loads and small products, sets the time."
            if factors.median() > 3
            else "the machine's limits set the time here."
        )
    )


def _times(value: float, reference: float) -> str:
    return f"{value / reference:.1f} times" if reference else "from nothing"


def _compared(new: pd.Series, old: pd.Series) -> str:
    """Faster, slower or alike, with the ratio of medians.

    Within the spread: the slower median is under the 90th percentile of the faster.
    """
    ratio = float(new["latency_p50_ms"] / old["latency_p50_ms"])
    if abs(ratio - 1) < NOISE:
        return "alike within 5 %"
    verdict = f"{1 / ratio:.1f} times as fast" if ratio < 1 else f"{ratio:.1f} times as slow"
    fast, slow = (new, old) if ratio < 1 else (old, new)
    within = slow["latency_p50_ms"] < fast["latency_p90_ms"]
    return f"{verdict}, though within the spread of the calls" if within else verdict
