"""``trace import``, ``stats``, ``record`` and ``make``, and reports of traces."""

import numpy as np
import pytest

from tests.cli.support import run, run_json


def test_infer_records_a_trace(capsys, folder, tmp_path):
    from colibri_lab.traces import read_trace

    for backend in ("cpu", "numpy"):
        out = tmp_path / f"{backend}.parquet"
        run(capsys, "infer", "--model", folder, "--prompt", "HELLO", "--max-new-tokens", 3,
            "--backend", backend, "--trace", out)  # fmt: skip
    cpu, numpy = (read_trace(tmp_path / f"{name}.parquet") for name in ("cpu", "numpy"))
    assert np.array_equal(cpu.expert, numpy.expert)
    assert len(cpu) == (5 + 2) * 2 * 2


def test_trace_import_stats_and_replay(capsys, folder, tmp_path):
    recorded, out = tmp_path / "r.parquet", tmp_path / "t.parquet"
    run(capsys, "infer", "--model", folder, "--prompt", "HELLO", "--max-new-tokens", 9,
        "--trace", recorded)  # fmt: skip
    status, document = run_json(capsys, "trace", "import", recorded, "-o", out)
    assert (status, document["assignments"]) == (0, (5 + 8) * 2 * 2)
    status, facts = run_json(capsys, "trace", "stats", out)
    assert (facts["prefill_tokens"], facts["decode_tokens"]) == (5, 8)
    assert facts["cycle_bytes"] == 2 * 2 * 3 * 16 * 24 * 4
    status, document = run_json(
        capsys, "trace", "replay", out, "--policy", "lru,belady", "--slots", "4,8"
    )
    assert status == 0
    assert [(r["policy"], r["slots"]) for r in document["results"]] == [
        (policy, slots) for slots in (4, 8) for policy in ("lru", "belady")
    ]
    assert document["results"][2]["misses"] <= 8
    status, text, _ = run(capsys, "trace", "replay", out, "--slots", "4")
    assert "belady" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["replay"], "needs budgets"),
        (["replay", "--slots", "4", "--budget-mib", "1"], "needs budgets"),
        (["replay", "--slots", ","], "needs budgets"),
        (["replay", "--slots", "4", "--policy", ","], "needs policies"),
        (["replay", "--slots", "4", "--layer-ms", "nan"], "costs make no sense"),
        (["replay", "--slots", "4", "--read-gbps", "nan"], "makes no sense"),
        (["replay", "--slots", "0"], "must be positive"),
        (["replay", "--slots", "4", "--policy", "magic"], "not known"),
        (["import", "--format", "magic", "-o", "x.parquet"], "format is not known"),
    ],
)
def test_bad_trace_usage(capsys, folder, tmp_path, arguments, words):
    out = tmp_path / "r.parquet"
    run(capsys, "infer", "--model", folder, "--prompt", "A", "--trace", out)
    status, _, err = run(capsys, "trace", arguments[0], out, *arguments[1:])
    assert status == 2
    assert words in err


def test_what_is_no_trace(capsys, tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    status, _, err = run(capsys, "trace", "stats", tmp_path / "x.csv")
    assert status == 2
    assert "no known trace format" in err


def test_report_of_a_trace(capsys, folder, tmp_path):
    recorded, out = tmp_path / "r.parquet", tmp_path / "cache.html"
    run(capsys, "infer", "--model", folder, "--prompt", "HELLO", "--max-new-tokens", 20,
        "--trace", recorded)  # fmt: skip
    status, _, err = run(capsys, "report", recorded, "-p", "layer_ms=1.0", "-o", out)
    assert status == 0, err
    assert "provisional: the trace has 19 decode tokens, one request" in out.read_text()
    (tmp_path / "x.txt").write_text("0 0 0 3:0.75 7:0.25\n")
    status, _, err = run(capsys, "report", tmp_path / "x.txt")
    assert status == 2
    assert "how large experts are" in err
    (tmp_path / "x.txt").write_text("nothing of the kind")
    status, _, err = run(capsys, "report", tmp_path / "x.txt")
    assert status == 2
    assert "no known trace format" in err


def test_trace_record_and_make(capsys, folder, tmp_path):
    from colibri_lab.traces import read_trace

    texts = []
    for name in ("a", "b"):
        texts.append(tmp_path / f"{name}.txt")
        texts[-1].write_text("ABCDEFGHIJKLMNOPQRSTUVWXYZ" * 2)
    out = tmp_path / "read.parquet"
    status, document = run_json(
        capsys, "trace", "record", "--model", folder, "--num-tokens", 20, *texts, "-o", out
    )
    assert (status, document["assignments"]) == (0, 2 * 20 * 2 * 2)
    assert "teacher-forced" in read_trace(out).source
    status, _, err = run(
        capsys, "trace", "record", "--model", folder, "--prefill", 60, *texts, "-o", out
    )
    assert (status, "too short" in err) == (2, True)
    status, document = run_json(capsys, "trace", "make", "zipf", "--num-tokens", 9, "-o", out)
    assert (status, document["assignments"]) == (0, 9 * 8 * 4)
    assert "synthetic" in read_trace(out).source
    status, _, err = run(capsys, "trace", "make", "magic", "-o", out)
    assert (status, "not known" in err) == (2, True)
