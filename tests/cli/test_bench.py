"""``colibri-lab bench``: its document, its peers' counts, and what it refuses."""

import json

import numpy as np
import pytest

from colibri_lab.cache import Budget
from colibri_lab.cache.replay import run_plain
from colibri_lab.cli import main
from colibri_lab.errors import CheckFailed
from colibri_lab.experiments import bench
from colibri_lab.traces import write_trace
from colibri_lab.traces.synthetic import make_trace

pytest.importorskip("numba")

SMALL = ["--lookups", "3000", "--keys", "40", "--slots", "10", "--repeats", "2"]
COLUMNS = {"name", "shape", "tokens", "ours_ms", "peer", "peer_ms", "ratio", "limit_fraction",
           "rel_error"}  # fmt: skip


def run_json(capsys, *arguments):
    status = main(["bench", *map(str, arguments), "--json"])
    return status, json.loads(capsys.readouterr().out)


def test_every_benchmark_has_a_peer_and_equal_results(capsys):
    status, document = run_json(capsys, *SMALL)
    rows = document["results"]
    assert status == 0
    assert {row["name"] for row in rows} == set(bench.NAMES)
    for row in rows:
        assert set(row) == COLUMNS
        assert row["tokens"] == 3000
        assert row["rel_error"] == 0
        assert row["ratio"] == pytest.approx(row["peer_ms"] / row["ours_ms"])
    assert {row["peer"] for row in rows if row["name"] == "replay-lru"} >= {"OrderedDict"}


def test_one_by_name_as_a_table(capsys):
    assert main(["bench", "replay-lru", *SMALL]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("name")
    assert all(line.startswith("replay-lru ") for line in lines[2:])


def test_a_trace_is_replayed_alone(capsys, tmp_path):
    trace = make_trace("zipf", num_tokens=50, num_layers=2, num_experts=8, top_k=2, expert_bytes=9)
    write_trace(trace, tmp_path / "trace.parquet")
    status, document = run_json(capsys, "--trace", tmp_path / "trace.parquet", "--slots", 6)
    assert status == 0
    assert [row["name"] for row in document["results"]] == list(bench.NAMES)
    assert {row["tokens"] for row in document["results"]} == {200}
    assert {row["peer"] for row in document["results"]} == {None}


@pytest.mark.parametrize(
    "arguments",
    [
        ["replay-mru"],
        ["--slots", "0"],
        ["--keys", "0"],
        ["--lookups", "0"],
        ["--repeats", "0"],
        ["--lookups", "1" + 20 * "0"],
        ["--keys", "1" + 20 * "0"],
    ],
)
def test_what_cannot_be_measured_is_refused(capsys, arguments):
    status, document = run_json(capsys, *arguments)
    assert status == 2
    assert document["error"]["expected"]


def test_without_numba_the_extra_is_named(capsys, monkeypatch):
    monkeypatch.setattr(bench, "find_spec", lambda name: None)
    status, document = run_json(capsys, *SMALL)
    assert status == 1
    assert "colibri-lab[fast]" in document["error"]["hint"]


def test_a_peer_that_counts_otherwise_is_no_peer(monkeypatch):
    calls = bench.synthetic_calls(500, 20)
    monkeypatch.setattr(bench, "ordered_dict_misses", lambda keys, slots: 7)
    with pytest.raises(CheckFailed, match="disagree"):
        bench.measure(["replay-lru"], calls, 5)


def test_the_ordered_dict_is_lru():
    calls = bench.synthetic_calls(800, 30)
    for slots in (1, 7, 29, 30):
        plain = run_plain(calls, "lru", Budget(slots))
        assert bench.ordered_dict_misses(calls.keys.tolist(), slots) == plain.misses


def test_libcachesim_reads_what_is_written(tmp_path):
    calls = bench.synthetic_calls(50, 5)
    path = tmp_path / "lookups"
    bench.write_libcachesim(calls, path)
    found = np.fromfile(path, bench.LIBCACHESIM_RECORD)
    assert path.stat().st_size == 50 * 24
    assert (found["key"] == calls.keys + 1).all()
    follows = found["next"] < 50
    assert (found["key"][found["next"][follows]] == found["key"][follows]).all()
    if bench.find_spec("libcachesim") is not None:
        plain = run_plain(calls, "lru", Budget(3))
        assert bench.libcachesim_misses("LRU", path, 50, 3) == plain.misses
