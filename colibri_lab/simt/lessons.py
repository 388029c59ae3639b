"""Small kernels to learn from, as CUDA source."""

from __future__ import annotations

from pathlib import Path

FILE = Path(__file__).with_name("lessons.cu")
SOURCE = FILE.read_text(encoding="utf-8")


def line_of(text: str) -> int:
    """The first line of the source that contains a text, counted as compilers count.

    raises : ValueError where none does.
    """
    for number, line in enumerate(SOURCE.splitlines(), 1):
        if text in line:
            return number
    raise ValueError(f"text: a part of lessons.cu expected, found {text!r}")
