"""The project's own trace file: Parquet, one row an assignment, the header in its metadata."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..atomic import atomic_writer
from ..errors import DeviceUnavailable, TraceError
from ..reference.trace import COLUMNS, LOOKAHEAD, RoutingTrace

KEY = b"colibri_lab.trace"
VERSION = 1
HEADER = ("num_layers", "num_experts", "top_k", "expert_bytes", "model", "source", "licence")
MAX_TABLE = 1 << 24  # layers times experts, at most: load tables are allocated by it
MAX_EXPERT_BYTES = 1 << 38  # 256 GiB: the sum over such a table still fits in 64 bits
PHASES = ("prefill", "decode")


def write_trace(trace: RoutingTrace, path: str | Path) -> None:
    """Write a trace; the file appears whole or not at all.

    Raises DeviceUnavailable where pyarrow is not installed.
    """
    pa = pyarrow()
    import pyarrow.parquet as pq

    columns: dict[str, Any] = {**trace.columns()}
    del columns["phase"]
    phase = pa.DictionaryArray.from_arrays(trace.phase.astype(np.int8), list(PHASES))
    header = {"version": VERSION, **{name: getattr(trace, name) for name in HEADER}}
    table = pa.table({"phase": phase, **columns})
    table = table.replace_schema_metadata({KEY: json.dumps(header).encode()})
    with atomic_writer(Path(path)) as file:
        pq.write_table(table, file, compression="zstd")


def read_trace(path: str | Path) -> RoutingTrace:
    """Read what `write_trace` wrote.

    Raises TraceError for a file that is none, lacks a column, or has ids out of range.
    """
    path = Path(path)
    table = read_table(path)
    header = _header(table, path)
    trace = RoutingTrace(**_columns(table, path), **header)
    _check(trace, path)
    return trace


def read_parts(path: str | Path, rows: int = 1 << 20) -> Iterator[RoutingTrace]:
    """What `read_trace` reads, in parts of so many rows: for traces that are larger than memory.

    Raises as `read_trace` does, for a fault in a part when that part's turn comes.
    """
    path = Path(path)
    pa = pyarrow()
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            header = _header(file.schema_arrow.empty_table(), path)
            for part in file.iter_batches(batch_size=rows):
                table = pa.Table.from_batches([part])
                table.validate(full=True)
                trace = RoutingTrace(**_columns(table, path), **header)
                _check(trace, path)
                yield trace
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(path, error) from error


def count_rows(path: Path) -> int | None:
    """Assignments of what `write_trace` wrote, from its footer; None for any other file."""
    pa = pyarrow()
    import pyarrow.parquet as pq

    try:
        with path.open("rb") as file:
            if file.read(4) != b"PAR1":
                return None
        footer = pq.read_metadata(path)
    except (OSError, pa.ArrowException):  # whoever reads it says what is wrong with it
        return None
    return footer.num_rows if KEY in (footer.metadata or {}) else None


def _unreadable(path: Path, error: Exception) -> TraceError:
    return TraceError(
        "the trace cannot be read",
        path=path,
        expected="a Parquet file",
        found=str(error)[:200],
        hint="the file may have been cut off while it was written",
    )


def read_table(path: Path) -> Any:
    """The Parquet table in a file; TraceError where it is none, or corrupt."""
    pa = pyarrow()
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
        table.validate(full=True)
        names = table.column_names
    except FileNotFoundError:
        raise
    # ValueError: a column's name that is no text, which is found when it is asked for.
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    if len(set(names)) < len(names):
        raise TraceError(
            "the trace has a column twice", path=path, expected="each once", found=names[:20]
        )
    return table


def _header(table: Any, path: Path) -> dict[str, Any]:
    stored = (table.schema.metadata or {}).get(KEY)
    if stored is None:
        raise TraceError(
            "the file has no trace header",
            path=path,
            expected=f"Parquet metadata {KEY.decode()}",
            found=", ".join(table.column_names) or "no columns",
            hint="it may be another engine's trace, which this version does not import",
        )
    try:
        header = json.loads(stored)
        version = header.pop("version")
        header["expert_bytes"] = tuple(int(size) for size in header["expert_bytes"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise TraceError("the trace header is corrupt", path=path, found=str(error)) from error
    if version != VERSION or set(header) != set(HEADER):
        raise TraceError(
            "the trace is of another version",
            path=path,
            expected=f"version {VERSION} with {', '.join(HEADER)}",
            found=f"version {version} with {', '.join(header)}",
        )
    _check_sizes(header, path)
    return header


def _check_sizes(header: dict[str, Any], path: Path) -> None:
    sizes = [header[name] for name in ("num_layers", "num_experts", "top_k")]
    sound = all(type(size) is int and 0 <= size <= MAX_TABLE for size in sizes)
    fits = all(0 <= size <= MAX_EXPERT_BYTES for size in header["expert_bytes"])
    if not sound or sizes[0] * sizes[1] > MAX_TABLE or not fits:
        raise TraceError(
            "the trace header's sizes make no sense",
            path=path,
            expected=f"whole numbers, at most {MAX_TABLE} experts in all layers, of at most "
            f"{MAX_EXPERT_BYTES} bytes each",
            found=f"{sizes}, bytes {list(header['expert_bytes'])[:4]}"[:120],
        )


def _columns(table: Any, path: Path) -> dict[str, Any]:
    missing = [name for name in COLUMNS if name not in table.column_names]
    if missing:
        raise TraceError(
            "the trace lacks a column", path=path, expected=", ".join(COLUMNS),
            found=f"none named {', '.join(missing)}",
        )  # fmt: skip
    columns = {}
    ahead = {LOOKAHEAD: np.int32} if LOOKAHEAD in table.column_names else {}
    for name, dtype in {**COLUMNS, **ahead}.items():
        column = table.column(name)
        if column.null_count:
            raise TraceError(
                f"column {name} has holes", path=path, expected="no null", found=column.null_count
            )
        try:
            values = _phases(column) if name == "phase" else np.array(column)
            columns[name] = values.astype(dtype)
        except (ValueError, TypeError, NotImplementedError) as error:
            raise TraceError(
                f"column {name} is of another type",
                path=path,
                expected=" or ".join(PHASES) if name == "phase" else np.dtype(dtype).name,
                found=str(column.type),
            ) from error
    return columns


def _phases(column: Any) -> Any:
    """[N] the phases by number; ValueError where a name is not one of them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found = pc.index_in(column.cast(pa.string()), value_set=pa.array(PHASES))
    if found.null_count:
        raise ValueError("not a phase")
    return np.array(found)


def _check(trace: RoutingTrace, path: Path) -> None:
    limits = {"layer": (0, trace.num_layers), "expert": (-1, trace.num_experts),
              "slot": (0, trace.top_k), "request": (0, None), "step": (0, None),
              LOOKAHEAD: (-1, trace.num_experts)}  # fmt: skip
    for name, values in trace.columns().items():
        low, high = limits.get(name, (None, None))
        if low is None:
            continue
        bad = (values < low) | (values >= high if high is not None else False)
        if bad.any():
            row = int(np.argmax(bad))
            raise TraceError(
                f"{name} is out of range in row {row}",
                path=path,
                expected=f"{low} or more" if high is None else f"{low} to {high - 1}",
                found=int(values[row]),
            )


def pyarrow() -> Any:
    try:
        import pyarrow as pa
    except ModuleNotFoundError as error:
        raise DeviceUnavailable(
            "traces are Parquet files, which need pyarrow",
            hint="pip install 'colibri-lab[report]', or make setup",
        ) from error
    return pa
