"""Showing figures in a notebook, with words for those who cannot see them."""

from __future__ import annotations

import io
from html import escape
from typing import Any

from matplotlib.figure import Figure

from .figures import ReportFigure
from .theme import LIGHT, data_uri, svg

# A light card, so that a figure is legible on a dark page too.
PAGE = (
    '<figure style="margin:0"><img src="{picture}" alt="{alt}" '
    'style="background:#fff;max-width:100%">{caption}</figure>'
)


def show(figure: ReportFigure | Figure, alt: str = "") -> Any:
    """A figure inline: one of the report's with its caption, or any other.

    alt : what it shows, in words; the report's figures have their own.
    """
    from IPython.display import HTML

    if isinstance(figure, ReportFigure):
        picture, alt = data_uri(svg(figure.draw, LIGHT)), figure.alt
        title, text = escape(figure.title), escape(figure.caption)
        caption = f"<figcaption><b>{title}.</b> {text}</figcaption>"
    else:
        picture, caption = data_uri(_svg(figure)), ""
    return HTML(PAGE.format(picture=picture, alt=escape(alt), caption=caption))


def _svg(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()
