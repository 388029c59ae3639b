"""Figures of routing on real text: which expert each token takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ..reference import RoutingTrace
from .theme import LIGHT, Theme, new_figure, themed

SPACE, BREAK = "\u00b7", "\u21b5"  # how white space shows


def token_strip(
    tokens: Sequence[str], trace: RoutingTrace, theme: Theme = LIGHT, per_row: int = 16
) -> Figure:
    """The best expert of every token in every layer, as coloured fields with the expert's number.

    tokens : the text of each token.   trace : of one request, prefill alone.
    """
    best = best_experts(trace)[:, : len(tokens)]
    num_layers, count = best.shape
    rows = -(-count // per_row)
    with themed(theme):
        figure, axes = new_figure(9.2, 0.62 * rows * (num_layers * 0.5 + 0.6), rows, 1)
        for row, place in enumerate(np.atleast_1d(axes)):
            part = best[:, row * per_row : (row + 1) * per_row]
            _strip(place, part, tokens[row * per_row :], trace.num_experts, per_row, theme)
    return figure


def _strip(axes, part, tokens, num_experts, per_row, theme) -> None:  # type: ignore[no-untyped-def]
    num_layers, count = part.shape
    colors = colormaps["tab20"](np.arange(num_experts) % 20)[:, :3] * 0.55 + 0.45
    axes.imshow(colors[part], aspect="auto")
    for (layer, place), expert in np.ndenumerate(part):
        axes.text(place, layer, str(expert), ha="center", va="center", fontsize=8, color="#1c2430")
    axes.set_xlim(-0.5, per_row - 0.5)
    axes.set_xticks(range(count), [visible(token) for token in tokens[:count]], fontsize=9)
    axes.xaxis.tick_top()
    axes.set_yticks(
        range(num_layers), [f"layer {layer}" for layer in range(num_layers)], fontsize=8
    )
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_facecolor(theme.surface)


def best_experts(trace: RoutingTrace) -> NDArray[np.int32]:
    """[L, tokens] the expert in slot 0 of each token and layer."""
    first = trace.slot == 0
    return trace.expert[first].reshape(trace.num_layers, -1)


def visible(token: str) -> str:
    """A token's text with its white space shown; mathematics marks are kept from matplotlib."""
    shown = token.replace(" ", SPACE).replace("\n", BREAK).replace("\t", "\u2192")
    return shown.replace("$", r"\$") or "?"


def domain_shares(
    loads: Mapping[str, NDArray[np.int64]], layer: int, theme: Theme = LIGHT
) -> Figure:
    """Heat map: for each domain of text, the share of its tokens that each expert took.

    loads : domain -> expert_load [L, E].
    """
    shares = np.stack([load[layer] / load[layer].sum() for load in loads.values()])
    with themed(theme):
        figure, axes = new_figure(8.2, 1.2 + 0.34 * len(shares))
        image = axes.imshow(shares, cmap=theme.scale, vmin=0, aspect="auto")
        for (row, expert), share in np.ndenumerate(shares):
            color = theme.surface if share > shares.max() * 0.55 else theme.ink
            axes.text(
                expert, row, f"{share * 100:.0f}", ha="center", va="center", color=color, fontsize=8
            )
        axes.set_xticks(range(shares.shape[1]))
        axes.set_yticks(range(len(shares)), list(loads))
        axes.set_xlabel(f"expert of layer {layer}; percent of the domain's assignments")
        axes.tick_params(length=0)
        bar = figure.colorbar(image, ax=axes, pad=0.01, fraction=0.04)
        bar.outline.set_visible(False)
        bar.ax.tick_params(length=0)
    return figure


def router_bars(
    probabilities: NDArray[np.float64], chosen: NDArray[np.int32], theme: Theme = LIGHT
) -> Figure:
    """Each token's router probabilities, the chosen experts filled.

    probabilities : [T, E].   chosen : [T, K].
    """
    count, num_experts = probabilities.shape
    with themed(theme):
        figure, axes = new_figure(8.6, 2.3, 1, count)
        for token, place in enumerate(np.atleast_1d(axes)):
            taken = np.isin(np.arange(num_experts), chosen[token])
            bars = place.bar(range(num_experts), probabilities[token], width=0.7)
            for bar, is_taken in zip(bars, taken, strict=True):
                bar.set_color(theme.series[0] if is_taken else theme.grid)
            place.set_title(f"token {token}")
            place.set_ylim(0, 1)
            place.set_xlabel("expert")
            place.set_xticks(range(num_experts))
            place.tick_params(length=0)
        np.atleast_1d(axes)[0].set_ylabel("probability")
    return figure
