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
    slow : (layer, expert, factor): it computes so many times as long as the layer's median."""

    never_called: list[tuple[int, int]]
    slow: list[tuple[int, int, float]]


def health(stats: EngineStats) -> Health:
    """Experts worth a look: never called, or over 3 times as slow as their layer's median.

    An expert is slow if it is so by the call and by the token: one token a call takes long a token,
    many take long a call, and neither is the expert's fault.
    """
    never = [(int(layer), int(expert)) for layer, expert in np.argwhere(stats.calls == 0)]
    by_call, by_token = (
        _over_median(stats.compute_s, uses) for uses in (stats.calls, stats.tokens)
    )
    factors = np.minimum(by_call, by_token)
    enough = stats.calls >= SLOW_CALLS
    slow = [
        (int(layer), int(expert), float(factors[layer, expert]))
        for layer, expert in np.argwhere(enough & (factors > SLOW_FACTOR))
    ]
    return Health(never, slow)


def _over_median(seconds: NDArray[np.float64], uses: NDArray[np.int64]) -> NDArray[np.float64]:
    """[L, E] seconds a use over the median of the layer's used experts; 0 where that is unknown."""
    each = np.divide(seconds, uses, out=np.zeros(uses.shape), where=uses > 0)
    medians = [np.median(row[row > 0]) if row.any() else 0.0 for row in each]
    layer = np.array(medians)[:, None]
    return np.divide(each, layer, out=np.zeros(uses.shape), where=layer > 0)


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
