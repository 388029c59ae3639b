"""A cell's record: its columns, its line in records.jsonl, and the table of them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import RunError

if TYPE_CHECKING:
    import pandas as pd

SCHEMA_VERSION = 1
FILE_NAME = "records.jsonl"

TEXT, WHOLE, REAL, FLAG = "string", "Int64", "float64", "boolean"
_PYTHON: dict[str, Any] = {TEXT: str, WHOLE: int, REAL: (int, float), FLAG: bool}
NEEDED = ("cell_id", "status", "code_version", "warning")  # a line without them is no record
COLUMNS = {
    "run_id": TEXT,
    "cell_id": TEXT,
    "model": TEXT,
    "backend": TEXT,
    "device": TEXT,
    "emulated": FLAG,
    "dtype": TEXT,
    "batch_size": WHOLE,
    "seq_len": WHOLE,
    "top_k": WHOLE,
    "stream_count": WHOLE,
    "capacity": TEXT,
    "capacity_policy": TEXT,
    "capacity_factor": REAL,
    "capacity_overflow": REAL,
    "expert_cache_slots": WHOLE,
    "cache_policy": TEXT,
    "residency": TEXT,
    "inputs": TEXT,
    "blas_threads": WHOLE,
    "warmup": WHOLE,
    "repeats": WHOLE,
    "latency_p50_ms": REAL,
    "latency_p90_ms": REAL,
    "latency_p99_ms": REAL,
    "tokens_per_s": REAL,
    "expert_load_max_over_mean": REAL,
    "routing_entropy": REAL,
    "active_experts": REAL,
    "dropped_fraction": REAL,
    "moved_fraction": REAL,
    "expert_miss_ratio": REAL,
    "expert_loads_per_request": REAL,
    "expert_bytes_read": REAL,
    "bytes_moved": REAL,
    "roofline_floor_ms": REAL,
    "roofline_bound": TEXT,
    "device_bytes_moved": REAL,
    "device_dram_bytes": REAL,
    "device_sectors_per_request": REAL,
    "device_bank_conflicts": REAL,
    "llc_miss_ratio": REAL,
    "dtlb_misses_per_kinstr": REAL,
    "output_rel_error": REAL,
    "capacity_rel_error": REAL,
    "perplexity": REAL,
    "warning": TEXT,
    "status": TEXT,
    "error": TEXT,
    "code_version": TEXT,
    "hardware_key": TEXT,
    "started_utc": TEXT,
    "duration_s": REAL,
}

DEFINITIONS = {
    "backend": "cpu: the engine, float32; numpy: the reference, float64 sums; cuda: the engine's "
    "kernels on a GPU, or without one on an emulated device",
    "emulated": "no GPU computed: latency columns are null, counters stand in their place",
    "batch_size": "sequences in a call, each another one",
    "seq_len": "tokens a sequence gives to a call; 1 is a decode step",
    "repeats": "timed calls; a call runs the routed experts of all MoE layers, each layer on "
    "its own recorded input",
    "latency_p50_ms": "median of the timed calls, without the checks of their input",
    "latency_p99_ms": "linear between the two nearest samples: with 100 calls, the two slowest",
    "tokens_per_s": "batch_size * seq_len over the median latency, MoE layers alone",
    "expert_load_max_over_mean": "busiest expert over mean, timed calls together, mean of layers",
    "routing_entropy": "bits, of the distribution of expert load over the timed calls together, "
    "mean of layers; log2(num_experts) is balance",
    "active_experts": "experts with a token or more in a call, mean of calls and layers",
    "dropped_fraction": "share of assignments that the capacity policy dropped",
    "moved_fraction": "share of assignments that it moved to another expert",
    "expert_miss_ratio": "expert cache misses over look-ups, timed calls",
    "expert_loads_per_request": "experts copied into the cache a call, all layers",
    "expert_bytes_read": "bytes of experts as stored that were read into the cache a call",
    "bytes_moved": "bytes that the floor counts a call: active experts, router, states; mean",
    "roofline_floor_ms": "the time below which this machine cannot do the calls: the median over "
    "calls of the larger of bytes over measured bandwidth and operations over measured speed",
    "device_bytes_moved": "bytes that loads and stores of global memory ask for in one observed "
    "call of the emulated device",
    "device_dram_bytes": "of them, those that miss the L2 of the GPU that is emulated",
    "device_sectors_per_request": "32-byte sectors that a warp's access touches, mean",
    "device_bank_conflicts": "passes over shared memory's banks beyond those that are needed",
    "output_rel_error": "backend against the reference under the same policy: the worst of layers "
    "and of checked calls (the warm-up calls and the last timed one)",
    "capacity_rel_error": "reference under the policy against the dropless reference at the same "
    "top_k: mean of layers, over up to 16 timed calls together, evenly spaced",
    "perplexity": "of the reference decoder on held-out text under this top_k and capacity; the "
    "size of its layer call is in this manifest, and is not this cell's",
}


def blank_record() -> dict[str, Any]:
    """Every column, null."""
    return dict.fromkeys(COLUMNS)


def as_line(record: dict[str, Any]) -> str:
    """A record as one line of JSON; what is not finite is null."""
    if set(record) != set(COLUMNS):
        odd = sorted(set(record) ^ set(COLUMNS))
        raise RunError("a record has other columns than its schema", found=", ".join(odd))
    plain = {name: _plain(value) for name, value in record.items()}
    return json.dumps(plain, allow_nan=False, ensure_ascii=False)


def _plain(value: Any) -> Any:
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def read_lines(path: Path) -> tuple[list[dict[str, Any]], int]:
    """The records of a file, and the bytes that they take.

    A torn last line (a writer was killed) is not among them; RunError for any other bad line.
    """
    if not path.exists():
        return [], 0
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RunError("the records cannot be read", path=path, found=str(error)) from error
    records, start = [], 0
    while (end := data.find(b"\n", start)) >= 0:
        record = _parse(data[start:end])
        if record is None:
            if end + 1 == len(data):
                break
            raise RunError(
                "a record is damaged",
                path=path,
                offset=start,
                expected="one JSON object with a cell_id a line",
                found=repr(data[start : start + 40]),
                hint="delete that line; resuming the run measures its cell again",
            )
        records.append(record)
        start = end + 1
    return records, start


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and _is_record(record) else None


def _is_record(record: dict[str, Any]) -> bool:
    """Whether readers can do with it: the columns they ask for, and values of their kinds."""
    if not isinstance(record.get("cell_id"), str) or any(name not in record for name in NEEDED):
        return False
    values = {name: record[name] for name in COLUMNS.keys() & record.keys()}
    return all(value is None or _fits(value, COLUMNS[name]) for name, value in values.items())


def _fits(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == FLAG
    return isinstance(value, _PYTHON[kind])


def latest(records: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """cell_id -> its last record: a failed cell that was run again has two."""
    return {record["cell_id"]: record for record in records}


def is_within(record: dict[str, Any], tolerance: float) -> bool:
    """Whether the output was held against the reference and was no further off than that."""
    error = record.get("output_rel_error")
    return error is not None and error <= tolerance


def as_frame(records: Iterable[dict[str, Any]]) -> pd.DataFrame:
    """One row a record; columns and dtypes are `COLUMNS`, whatever is null."""
    import pandas as pd

    rows = list(records)
    return pd.DataFrame(
        {
            name: pd.Series([row.get(name) for row in rows], dtype=dtype)
            for name, dtype in COLUMNS.items()
        }
    )
