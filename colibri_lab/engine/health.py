"""Which experts are slow or never called, and the counters as Prometheus reads them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .stats import EngineStats

SLOW_FACTOR = 3.0
SLOW_CALLS = 3  # one call may be slow by chance

# Field of EngineStats -> name and help of the counter.
COUNTERS = {
    "calls": ("colibri_expert_calls_total", "Times the expert computed."),
    "tokens": ("colibri_expert_tokens_total", "Tokens that the expert computed."),
    "hits": ("colibri_expert_cache_hits_total", "Uses that found the expert in memory."),
    "misses": ("colibri_expert_cache_misses_total", "Uses that did not."),
    "loads": ("colibri_expert_loads_total", "Times the expert was read."),
    "bytes_read": ("colibri_expert_read_bytes_total", "Bytes read for the expert."),
    "load_s": ("colibri_expert_load_seconds_total", "Seconds reading the expert."),
    "compute_s": ("colibri_expert_compute_seconds_total", "Seconds computing."),
    "combine_s": ("colibri_expert_combine_seconds_total", "Seconds adding to the output."),
}


@dataclass(frozen=True)
class Health:
    """never_called : (layer, expert) without a call.
    slow : (layer, expert, factor): computing a token takes so many times the layer's median."""

    never_called: list[tuple[int, int]]
    slow: list[tuple[int, int, float]]


def health(stats: EngineStats) -> Health:
    """Experts worth a look: never called, or over 3 times their layer's median time a token."""
    never = [(int(layer), int(expert)) for layer, expert in np.argwhere(stats.calls == 0)]
    per_token = _seconds_a_token(stats)
    slow = []
    for layer, times in enumerate(per_token):
        known = times[~np.isnan(times)]
        if not known.size or not np.median(known):
            continue
        factors = times / np.median(known)
        enough = stats.calls[layer] >= SLOW_CALLS
        slow += [
            (layer, int(expert), float(factors[expert]))
            for expert in np.flatnonzero(enough & (factors > SLOW_FACTOR))
        ]
    return Health(never, slow)


def _seconds_a_token(stats: EngineStats) -> NDArray[np.float64]:
    unknown = np.full(stats.tokens.shape, np.nan)
    return np.divide(stats.compute_s, stats.tokens, out=unknown, where=stats.tokens > 0)


def expert_rows(stats: EngineStats) -> list[tuple[int, int, int, int, int, float, float, float]]:
    """Layer, expert, calls, tokens, loads, load ms, compute ms, combine ms; those called alone."""
    rows = []
    for layer, expert in np.argwhere(stats.calls > 0):
        at = layer, expert
        counts = (int(stats.calls[at]), int(stats.tokens[at]), int(stats.loads[at]))
        seconds = (stats.load_s[at], stats.compute_s[at], stats.combine_s[at])
        load_ms, compute_ms, combine_ms = (round(float(value) * 1e3, 3) for value in seconds)
        rows.append((int(layer), int(expert), *counts, load_ms, compute_ms, combine_ms))
    return rows


def prometheus_text(stats: EngineStats) -> str:
    """The counters in Prometheus' text format, labelled by MoE layer and expert.

    Source: the exposition format, version 0.0.4.
    """
    lines = []
    for field, (name, description) in COUNTERS.items():
        lines += [f"# HELP {name} {description}", f"# TYPE {name} counter"]
        values = getattr(stats, field)
        lines += [
            f'{name}{{layer="{layer}",expert="{expert}"}} {value}'
            for layer, row in enumerate(values.tolist())
            for expert, value in enumerate(row)
        ]
    return "\n".join(lines) + "\n"
