"""colibri's ``.coli_usage``: text, ``<layer> <expert> <count>`` a line, a histogram.

Headers: ``-1 <n_layers> <n_experts>`` and ``-2 <format> <engine>``.
"""

from __future__ import annotations

import re
from pathlib import Path

from ...errors import TraceError
from .common import Given, check_table, malformed, text_lines
from .histogram import ExpertHistogram, from_counts

FIRST = re.compile(rb"\s*(-1 \d+ \d+|-2 \S+ \S+|\d+ \d+ \d+)[ \t\r]*(\n|$)")
ENTRY = re.compile(r"(-?\d{1,18}) (\d{1,18}) (\d{1,18})", re.ASCII)


def recognise(head: bytes) -> bool:
    return FIRST.match(head) is not None


def read(path: Path, given: Given) -> ExpertHistogram:
    """Raises TraceError, naming the line, for what is malformed, counted twice or out of range."""
    sizes = (0, 0)
    counts: dict[tuple[int, int], int] = {}
    for number, line in text_lines(path):
        if line.startswith("-2 "):
            continue
        entry = ENTRY.fullmatch(" ".join(line.split()))
        if entry is None:
            raise malformed(path, f"line {number}", "<layer> <expert> <count>", line)
        layer, expert, count = map(int, entry.groups())
        if layer == -1:
            check_table(path, expert, count)
            sizes = (expert, count)
        elif (layer, expert) in counts:
            raise TraceError(
                f"line {number} counts an expert again", path=path, expected="each once", found=line
            )
        else:
            counts[layer, expert] = count
    return from_counts(path, counts, given, "colibri usage", sizes)
