"""JSON and JSON lines, as hooks in several engines write them.

Lines: an object a row, with ids under ``selected_ids``, ``topk_ids`` or ``experts``, and perhaps
weights, token, request and phase; a line of ``"type": "meta"`` may stand before them.
JSON: ``[[layer, e0, …], …]``, or an object that has rows under ``trace``, ``entries`` or ``data``,
and may have ``top_k`` and ``num_experts``.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from ...errors import TraceError
from ...reference.trace import RoutingTrace
from .common import Given, id_list, malformed, text_lines, whole
from .records import Record, from_records, record

LISTS = ("trace", "entries", "data")
IN_OBJECT = re.compile(rb'\s*\{[^\[\]]*"(trace|entries|data)"\s*:\s*\[')
IN_LINE = re.compile(rb'"(selected_ids|topk_ids|experts)"\s*:\s*\[|"type"\s*:\s*"(meta|route)"')


def recognise_lines(head: bytes) -> bool:
    first = head.lstrip().split(b"\n")[0]
    return first.startswith(b"{") and not IN_OBJECT.match(first) and bool(IN_LINE.search(first))


def recognise_document(head: bytes) -> bool:
    return re.match(rb"\s*\[\s*[\[{]", head) is not None or IN_OBJECT.match(head) is not None


def read_lines(path: Path, given: Given) -> RoutingTrace:
    """Raises TraceError, naming the line, for whatever is malformed."""
    rows: list[Record] = []
    model = ""
    for number, line in text_lines(path):
        entry = _parse(path, line, f"line {number}")
        if not isinstance(entry, dict):
            raise malformed(path, f"line {number}", "a JSON object", line)
        kind = entry.get("type", "route")
        if kind == "route":
            rows.append(record(entry, path, number))
        elif kind == "meta":
            model = str(entry.get("model_id", entry.get("model", "")))[:200]
        else:
            raise malformed(path, f"line {number}", "type: route or meta", kind)
    return from_records(path, rows, given, "JSON lines", model=model)


def read_document(path: Path, given: Given) -> RoutingTrace:
    """Raises TraceError, naming the row, for whatever is malformed."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise TraceError(
            "the trace is no text", path=path, offset=error.start, expected="UTF-8 text"
        ) from error
    document = _parse(path, text, "the file")
    head: dict[str, Any] = document if isinstance(document, dict) else {}
    name = next((name for name in LISTS if name in head), None)
    rows = head[name] if name else document
    if not isinstance(rows, list):
        raise malformed(path, "the file", f"a list, or an object with {', '.join(LISTS)}", document)
    found = [_row(row, path, index) for index, row in enumerate(rows)]
    experts = whole(head.get("num_experts", 0), path, "the file's head", "num_experts")
    if "top_k" in head and found and len(found[0].ids) != head["top_k"]:
        raise TraceError(
            "the rows have another top-k than the file says",
            path=path,
            expected=head["top_k"],
            found=f"{len(found[0].ids)} in row 0",
        )
    return from_records(path, found, given, "JSON", "row", str(head.get("model", "")), experts)


def _row(row: Any, path: Path, index: int) -> Record:
    if isinstance(row, dict):
        return record(row, path, index, "row")
    if not isinstance(row, list) or len(row) < 2:
        raise malformed(path, f"row {index}", "[layer, e0, …] or an object", row)
    layer = whole(row[0], path, f"row {index}", "layer")
    return Record(index, layer, id_list(row[1:], path, f"row {index}", "experts"))


def _parse(path: Path, text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        found = f"{error} in {text[:60]!r}"
        raise TraceError(
            f"{where} is no JSON",
            path=path,
            expected="JSON",
            found=found[:200],
            hint="the file may have been cut off while it was written",
        ) from error
