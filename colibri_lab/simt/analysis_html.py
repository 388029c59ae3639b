"""A kernel's source with its counters beside each line, as HTML without scripts or files."""

from __future__ import annotations

from html import escape

from .analysis_records import Finding, Kernel
from .analysis_source import source_lines
from .analysis_table import LineTotal, Row, by_line

# Colours of warnings have an alpha, so that they are legible on light and dark pages alike.
_STYLE = """<style>
.simt table {border-collapse: collapse; font-size: 12px; table-layout: auto}
.simt th, .simt td {padding: 1px 8px; text-align: right; vertical-align: top; border: 0;
  font-family: monospace; white-space: pre}
.simt th {border-bottom: 1px solid currentColor; font-weight: 600}
.simt td.source, .simt th.source {text-align: left; white-space: pre-wrap}
.simt td.note {text-align: left; white-space: normal; font-family: inherit;
  background: rgba(214, 96, 77, .22); border-left: 4px solid rgb(214, 96, 77)}
.simt td.warm {background: rgba(230, 159, 0, .28)}
.simt td.hot {background: rgba(214, 96, 77, .38)}
.simt caption {text-align: left; padding: 4px 0; font-size: 13px}
</style>"""
_COLUMNS = ("line", "source", "lanes", "sectors/request", "conflicts", "L2 misses", "flops")


def _cell(text: str, level: str = "") -> str:
    return f'<td class="{level}">{escape(text)}</td>' if level else f"<td>{escape(text)}</td>"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value else ""


def _sectors(rows: list[Row]) -> str:
    """Sectors a request of the line's worst global access, and how far that is from the least."""
    far = [row for row in rows if row.sectors]
    if not far:
        return _cell("")
    worst = max(far, key=lambda row: row.sectors / row.ideal_sectors)
    excess = worst.sectors / worst.ideal_sectors
    level = "hot" if excess >= 4 else "warm" if excess > 1.3 else ""
    return _cell(f"{worst.sectors_a_request:.1f}", level)


def _conflicts(rows: list[Row]) -> str:
    near = [row for row in rows if row.wavefronts]
    if not near:
        return _cell("")
    extra, least = sum(r.conflicts for r in near), sum(r.ideal_wavefronts for r in near)
    level = "hot" if extra >= 3 * least else "warm" if extra else ""
    return _cell(_number(extra) or "0", level)


def _lanes(total: LineTotal) -> str:
    rows = [total.blocks] if total.blocks else total.rows
    requests = sum(row.requests for row in rows)
    if not requests:
        return _cell("")
    active = sum(row.lanes for row in rows) / requests
    return _cell(f"{active:.1f}", "hot" if active <= 8 else "warm" if active < 24 else "")


def _line(number: int, source: str, total: LineTotal | None) -> str:
    text = f'<td>{number}</td><td class="source">{escape(source)}</td>'
    if total is None:
        return f"<tr>{text}{'<td></td>' * (len(_COLUMNS) - 2)}</tr>"
    misses = _number(sum(row.l2_misses for row in total.rows))
    cells = _lanes(total) + _sectors(total.rows) + _conflicts(total.rows) + _cell(misses)
    return f"<tr>{text}{cells}{_cell(_number(total.flops + total.functions))}</tr>"


def _notes(findings: list[Finding]) -> str:
    rows = ""
    for one in findings:
        mark = "! " if one.is_error else "? "
        span = len(_COLUMNS) - 1
        rows += f'<tr><td></td><td class="note" colspan="{span}">{mark}{escape(str(one))}</td></tr>'
    return rows


class Listing:
    """Shows itself in a notebook; `html` is the text.

    Columns: lanes that took part, of 32; 32-byte sectors a request of the line's worst access to
    global memory; passes over the banks beyond the least; sectors that the L2 model missed;
    arithmetic operations, calls of mathematical functions among them.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.html = _html(kernel)

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return f"<listing of {self.kernel.name}>"


def _span(kernel: Kernel, lines: list[int], source: list[str]) -> range:
    """From the kernel's head, where it is just above, to its closing brace."""
    first, last = min(lines), max(lines)
    for number in range(first, max(0, first - 12), -1):
        if number <= len(source) and kernel.name in source[number - 1]:
            first = number
            break
    for number in range(last + 1, min(last + 4, len(source) + 1)):
        if source[number - 1].startswith("}"):
            last = number
            break
    return range(first, last + 1)


def _html(kernel: Kernel) -> str:
    totals = by_line(kernel)
    places = set(totals) | {one.place for one in kernel.findings}
    body = ""
    for file in sorted({file for file, line in places if line}):
        lines = [line for name, line in places if name == file]
        source = source_lines(kernel, file) or ["(its source is not at hand)"] * max(lines)
        for number in _span(kernel, lines, source):
            text = source[number - 1] if number <= len(source) else ""
            body += _line(number, text, totals.get((file, number)))
            at = (file, number)
            body += _notes([one for one in kernel.findings if at == one.place])
    head = "".join(
        f'<th class="source">{name}</th>' if name == "source" else f"<th>{name}</th>"
        for name in _COLUMNS
    )
    caption = f"{escape(kernel.name)}, grid {kernel.grid}, block {kernel.block}: emulated, no times"
    table = f"<table><caption>{caption}</caption><tr>{head}</tr>{body}</table>"
    return f'{_STYLE}<div class="simt">{table}</div>'
