"""Records: lines that survive a crash, and a table with the right dtypes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from colibri_lab.errors import RunError
from colibri_lab.experiments.records import (
    COLUMNS,
    DEFINITIONS,
    as_frame,
    as_line,
    blank_record,
    latest,
    read_lines,
)

# The run folder's columns that readers rely on.
PROMISED = """
    run_id cell_id model backend device emulated dtype batch_size seq_len top_k stream_count
    capacity_policy capacity_factor expert_cache_slots cache_policy residency repeats
    latency_p50_ms latency_p90_ms latency_p99_ms tokens_per_s expert_load_max_over_mean
    routing_entropy active_experts dropped_fraction moved_fraction expert_miss_ratio
    expert_loads_per_request bytes_moved roofline_floor_ms llc_miss_ratio dtlb_misses_per_kinstr
    output_rel_error capacity_rel_error perplexity status error
"""


def record(cell_id: str, **values: Any) -> dict[str, Any]:
    return {**blank_record(), "cell_id": cell_id, "status": "ok", **values}


def test_every_promised_column_is_there_and_definitions_name_columns() -> None:
    assert set(PROMISED.split()) <= set(COLUMNS)
    assert set(DEFINITIONS) <= set(COLUMNS)


def test_a_line_is_json_without_nan() -> None:
    line = as_line(record("a", latency_p50_ms=float("nan"), batch_size=np.int64(3)))
    back = json.loads(line)
    assert back["latency_p50_ms"] is None
    assert back["batch_size"] == 3
    assert "\n" not in line


def test_a_record_of_other_columns_is_refused() -> None:
    with pytest.raises(RunError, match="hue"):
        as_line({**blank_record(), "hue": 1})


@pytest.mark.parametrize("torn", ['{"cell_id": "c", "sta', '{"cell_id": "c"}', "\0\0\0", "\0\n"])
def test_a_torn_last_line_is_ignored(tmp_path: Path, torn: str) -> None:
    path = tmp_path / "records.jsonl"
    whole = as_line(record("a")) + "\n" + as_line(record("b")) + "\n"
    path.write_text(whole + torn)
    found, length = read_lines(path)
    assert [line["cell_id"] for line in found] == ["a", "b"]
    assert length == len(whole)


def test_damage_in_the_middle_is_an_error_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    first = as_line(record("a")) + "\n"
    path.write_text(first + "garbage\n" + as_line(record("b")) + "\n")
    with pytest.raises(RunError, match="garbage") as caught:
        read_lines(path)
    assert caught.value.offset == len(first)


def test_no_file_is_no_records(tmp_path: Path) -> None:
    assert read_lines(tmp_path / "none.jsonl") == ([], 0)


def test_the_last_record_of_a_cell_counts() -> None:
    found = latest([record("a", status="failed"), record("b"), record("a")])
    assert {key: value["status"] for key, value in found.items()} == {"a": "ok", "b": "ok"}


def test_dtypes_do_not_depend_on_what_is_null() -> None:
    full = record("a", batch_size=4, latency_p50_ms=1.5, emulated=False, error=None)
    for rows in ([], [full], [record("b")], [full, record("b")]):
        frame = as_frame(rows)
        assert list(frame.columns) == list(COLUMNS)
        assert {name: str(kind) for name, kind in frame.dtypes.items()} == COLUMNS
    assert frame["batch_size"].tolist()[0] == 4
    assert frame["latency_p50_ms"].isna().tolist() == [False, True]


@pytest.mark.parametrize(
    "line",
    [
        '{"cell_id": "a"}',
        json.dumps({**record("a"), "cell_id": [1]}),
        json.dumps({**record("a"), "latency_p50_ms": "fast"}),
        json.dumps({**record("a"), "batch_size": 1.5}),
        json.dumps({**record("a"), "top_k": True}),
        "[" * 100_000,
    ],
    ids=["columns", "id", "real", "whole", "flag", "nested"],
)
def test_a_line_that_readers_cannot_use_is_damage(tmp_path: Path, line: str) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text(f"{as_line(record('first'))}\n{line}\n{as_line(record('last'))}\n")
    with pytest.raises(RunError, match="a record is damaged") as caught:
        read_lines(path)
    assert caught.value.offset == len(as_line(record("first"))) + 1
