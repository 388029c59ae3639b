"""moe-policylang's Parquet, a row for each token in each layer.

Columns prompt_id, token_idx, layer_idx, and the lists selected_experts and router_softmax. By them
it is told from the project's own Parquet.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...errors import TraceError
from ...reference.trace import RoutingTrace
from ..parquet import pyarrow, read_table
from .common import Given
from .records import from_records, record

COLUMNS = ("prompt_id", "token_idx", "layer_idx", "selected_experts")
SOFTMAX = "router_softmax"


def recognise(head: bytes) -> bool:
    return head.startswith(b"PAR1")


def has_columns(path: Path) -> bool:
    """Whether this Parquet file has the columns; False where it cannot be read."""
    pa = pyarrow()
    import pyarrow.parquet as pq

    try:
        return set(COLUMNS) <= set(pq.read_schema(path).names)
    except (pa.ArrowException, OSError, ValueError):
        return False


def read(path: Path, given: Given) -> RoutingTrace:
    """Raises TraceError, naming the row, for whatever is missing, malformed or out of range."""
    table = _table(path)
    names = [name for name in (*COLUMNS, SOFTMAX) if name in table.column_names]
    columns = [table.column(name).to_pylist() for name in names]
    found = []
    for index, values in enumerate(zip(*columns, strict=True)):
        entry = dict(zip(names, values, strict=True))
        entry[SOFTMAX] = _of_chosen(entry.pop(SOFTMAX, None), entry["selected_experts"])
        found.append(record(entry, path, index, "row"))
    return from_records(path, found, given, "moe-policylang", unit="row")


def _of_chosen(softmax: Any, ids: Any) -> Any:
    """Some write the chosen experts' share of the softmax, some all of it: the former."""
    if not isinstance(softmax, list) or not isinstance(ids, list) or len(softmax) <= len(ids):
        return softmax
    if not all(type(name) is int and 0 <= name < len(softmax) for name in ids):
        return None
    return [softmax[name] for name in ids]


def _table(path: Path) -> Any:
    table = read_table(path)
    missing = [name for name in COLUMNS if name not in table.column_names]
    if missing:
        raise TraceError(
            "the trace lacks a column", path=path, expected=", ".join(COLUMNS),
            found=f"none named {', '.join(missing)}",
        )  # fmt: skip
    return table
