"""Requests drawn lane by lane: which sectors, or which banks, the lanes of a warp touch."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from .analysis_records import Step, name_of

SECTOR, BANK, BANKS = 32, 4, 32
_CELL = 9  # pixels of a word of four bytes
_FILL = "rgb(0, 114, 178)"  # one of the Okabe and Ito colours
_CLASH = "rgb(213, 94, 0)"
_STYLE = "font: 12px monospace; fill: currentColor"


def _text(x: float, y: float, text: str) -> str:
    return f'<text x="{x}" y="{y}" style="{_STYLE}">{escape(text)}</text>'


def _square(column: int, row: float, colour: str, lanes: list[int], title: str) -> str:
    """A word, the paler the higher its first lane."""
    opacity = f"{1 - 0.7 * lanes[0] / 31:.2f}"
    return (
        f'<rect x="{column * _CELL}" y="{row}" width="{_CELL - 1}" height="{_CELL - 1}"'
        f' fill="{colour}" fill-opacity="{opacity}"><title>{escape(title)}</title></rect>'
    )


def _frame(column: int, row: float, width: int) -> str:
    return (
        f'<rect x="{column * _CELL - 0.5}" y="{row - 1.5}" width="{width * _CELL}"'
        f' height="{_CELL + 2}" fill="none" stroke="currentColor" stroke-opacity=".45"/>'
    )


def _words(step: Step) -> dict[int, list[int]]:
    """Word of four bytes -> the lanes that touch it."""
    words: dict[int, list[int]] = {}
    for lane, offset in sorted(step.offsets.items()):
        for word in range(offset // 4, (offset + step.access_bytes - 1) // 4 + 1):
            words.setdefault(word, []).append(lane)
    return words


def _lanes(lanes: list[int]) -> str:
    return f"lane {lanes[0]}" if len(lanes) == 1 else f"lanes {lanes[0]} to {lanes[-1]}"


def _sectors(step: Step) -> tuple[str, float, int]:
    """A strip of the sectors touched, words filled: drawing, height, width in words."""
    words = _words(step)
    sectors = sorted({word * 4 // SECTOR for word in words})
    shapes, per_row = "", 8
    for i, sector in enumerate(sectors):
        row, column = i // per_row * (_CELL + 5), i % per_row * 9
        shapes += _frame(column, row, 8)
        for j in range(8):
            lanes = words.get(sector * 8 + j)
            if lanes:
                title = f"{_lanes(lanes)}, word {sector * 8 + j}"
                shapes += _square(column + j, row, _FILL, lanes, title)
    return shapes, -(-len(sectors) // per_row) * (_CELL + 5), per_row * 9


def _banks(step: Step) -> tuple[str, float, int]:
    """A column a bank, a square for each distinct word that it must give."""
    shapes, count = "", [0] * BANKS
    for word, lanes in sorted(_words(step).items()):
        bank = word % BANKS
        colour = _CLASH if count[bank] else _FILL
        title = f"bank {bank}, word {word}: {_lanes(lanes)}"
        shapes += _square(bank, count[bank] * _CELL, colour, lanes, title)
        count[bank] += 1
    return shapes, max(count) * _CELL, BANKS


def _caption(number: int, step: Step) -> str:
    lanes = len(step.offsets)
    where = f"{number}. {name_of(step.place)}: {step.operation}"
    if not lanes:
        return f"{where}: all threads of the block"
    near = step.operation.startswith("shared")
    words = _words(step)
    if near:
        banks = [word % BANKS for word in words]
        passes = max(banks.count(bank) for bank in set(banks))
        cost = f"{passes} to the busiest bank"
    else:
        sectors = len({word * 4 // SECTOR for word in words})
        cost = f"{sectors} sector{'' if sectors == 1 else 's'}"
    return f"{where}, warp {step.warp}, {lanes} lane{'' if lanes == 1 else 's'}, {cost}"


def _draw(number: int, step: Step) -> str:
    drawing, height, width = "", 0.0, 72
    if step.offsets:
        near = step.operation.startswith("shared")
        drawing, height, width = _banks(step) if near else _sectors(step)
    moved = f'<g transform="translate(4, 20)">{drawing}</g>'
    size = f'width="{max(width * _CELL, 700)}" height="{height + 26}"'
    caption = _caption(number, step)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" '
        f'aria-label="{escape(caption)}">{_text(4, 13, caption)}{moved}</svg>'
    )


class Steps:
    """Requests in their order; a slice is a picture of some. Shows itself in a notebook.

    Global memory: the 32-byte sectors touched, of eight words each, those asked for filled, from
    dark (lane 0) to pale (lane 31).
    Shared memory: a column a bank, and in it each word that the bank must give; from the second
    on they are a conflict (accesses of 8 and 16 bytes go in two and four phases).
    """

    def __init__(self, steps: Sequence[Step], first: int = 0) -> None:
        self.steps, self.first = steps, first

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, which: slice) -> Steps:
        return Steps(self.steps[which], self.first + (which.start or 0))

    def of_line(self, line: int, operation: str = "") -> Steps:
        """Those of one source line, and of an operation (`shared load`) where it is named."""
        kept = [s for s in self.steps if s.place[1] == line and s.operation.startswith(operation)]
        return Steps(kept)

    def _repr_html_(self) -> str:
        rows = "".join(_draw(self.first + i, step) for i, step in enumerate(self.steps, 1))
        return f'<div style="display: flex; flex-direction: column">{rows}</div>'

    def __repr__(self) -> str:
        numbered = enumerate(self.steps, self.first + 1)
        return "\n".join(_caption(number, step) for number, step in numbered)
