"""``trace replay`` and ``trace place`` with their options, and what ``doctor --save`` hands on."""

import json

import pytest

from colibri_lab.cli import main, replaying
from colibri_lab.traces import read_trace, write_trace
from colibri_lab.traces.synthetic import make_trace

SIZE = 1 << 20


@pytest.fixture
def trace(tmp_path):
    made = make_trace(
        "zipf", num_tokens=80, num_layers=3, num_experts=16, top_k=2, expert_bytes=SIZE
    )
    write_trace(made, tmp_path / "t.parquet")
    return tmp_path / "t.parquet"


def run(capsys, *arguments):
    status = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def replay(capsys, trace, *options):
    status, out, err = run(capsys, "trace", "replay", trace, "--json", *options)
    assert status == 0, err
    return json.loads(out)


def test_budgets_by_layer_and_by_token(capsys, trace):
    (shared,) = replay(capsys, trace, "--policy", "lru", "--slots", "12")["results"]
    (split,) = replay(capsys, trace, "--policy", "lru", "--slots", "12", "--per-layer")["results"]
    assert (shared["slots"], shared["budget_bytes"], shared["per_layer"]) == (12, None, False)
    assert split["per_layer"]
    assert split["misses"] != shared["misses"]
    (mib,) = replay(capsys, trace, "--policy", "lru", "--budget-mib", "12")["results"]
    assert mib["misses"] == shared["misses"]
    by_token = replay(capsys, trace, "--policy", "lru", "--slots", "12", "--per-token")
    assert by_token["verdict"].startswith("Of one cache for all layers, call by call: ")


def test_bypass_pins_and_reading_ahead(capsys, trace):
    best = ["--policy", "belady", "--slots", "6"]
    (plain,) = replay(capsys, trace, *best)["results"]
    (bypass,) = replay(capsys, trace, *best, "--bypass")["results"]
    assert bypass["misses"] < plain["misses"]
    (pinned,) = replay(capsys, trace, "--slots", "9", "--policy", "lru", "--pins", "3")["results"]
    assert pinned["pin_hit_ratio"] > 0
    options = ["--slots", "9", "--policy", "lru", "--prefetch", "markov"]
    (ahead,) = replay(capsys, trace, *options)["results"]
    assert ahead["prefetch_hit_ratio"] > 0
    status, out, _ = run(capsys, "trace", "replay", trace, *options)
    assert status == 0
    assert "ahead" in out.splitlines()[0]


def test_a_lower_top_k_asks_for_less(capsys, trace):
    options = ["--policy", "lru", "--slots", "6"]
    (both,) = replay(capsys, trace, *options)["results"]
    (best,) = replay(capsys, trace, *options, "--top-k", "1")["results"]
    assert best["misses"] < both["misses"]


def test_costs_from_the_command_line(capsys, trace):
    options = ["--slots", "6", "--read-gbps", "4", "--disk-gbps", "1", "--host-mib", "20",
               "--cpu-gbps", "3", "--policy", "lru"]  # fmt: skip
    status, out, err = run(capsys, "trace", "replay", trace, *options)
    assert status == 0, err
    assert "4 GB/s" in out
    assert "host memory holds 20 MiB" in out
    assert "CPU computes 3 GB/s" in out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--slots", "6", "--top-k", "3"], "top_k is out of range"),
        (["--slots", "6", "--prefetch", "magic"], "predictor is not known"),
        (["--slots", "6", "--prefetch", "look-ahead"], "no look-ahead"),
        (["--slots", "6", "--pins", "6"], "pins fill the cache"),
        (["--slots", "2", "--per-layer"], "leaves a layer nothing"),
        (["--slots", "6", "--disk-gbps", "1"], "needs its size"),
        (["--slots", "6", "--machine", "none.json"], "none.json"),
    ],
)
def test_what_cannot_be_replayed(capsys, trace, options, words):
    status, _, err = run(capsys, "trace", "replay", trace, *options)
    assert status == 2
    assert words in err


def test_slots_of_unequal_experts_have_no_verdict(capsys, tmp_path):
    made = make_trace("zipf", num_tokens=9, num_layers=2, num_experts=8, top_k=1, expert_bytes=SIZE)
    object.__setattr__(made, "expert_bytes", (SIZE, 2 * SIZE))
    write_trace(made, tmp_path / "t.parquet")
    found = replay(capsys, tmp_path / "t.parquet", "--slots", "3")
    assert "differ in size" in found["verdict"]
    status, out, _ = run(capsys, "trace", "replay", tmp_path / "t.parquet", "--budget-mib", "3")
    assert status == 0
    assert "belady (heuristic)" in out
    assert "<= " in out


def test_a_long_trace_is_read_in_parts(capsys, trace, monkeypatch):
    whole = replay(capsys, trace, "--slots", "6")
    monkeypatch.setattr(replaying, "STREAM_FROM", 100)
    monkeypatch.setattr(replaying, "JUDGED", 300)
    status, out, err = run(capsys, "trace", "replay", trace, "--slots", "6", "--json")
    assert status == 0, err
    found = json.loads(out)
    assert found["results"] == whole["results"]
    assert found["verdict"].startswith("Of its first 300 assignments: ")
    assert "verdict is of its first 300 rows" in err
    status, _, err = run(capsys, "trace", "replay", trace, "--slots", "6", "--top-k", "1")
    assert status == 2
    assert "too long" in err


def test_placement(capsys, trace):
    status, out, _ = run(
        capsys, "trace", "place", trace, "--devices", "2,4", "--copies", "3", "--json"
    )
    assert status == 0
    two, four = json.loads(out)["results"]
    assert (two["num_copies"], four["num_copies"]) == (20, 20)
    assert 1 <= four["balanced"] <= four["contiguous"]
    status, out, _ = run(capsys, "trace", "place", trace)
    assert status == 0
    assert "busiest device" in out
    status, _, err = run(capsys, "trace", "place", trace, "--devices", "0")
    assert status == 2
    assert "cannot be placed" in err


def test_a_measured_machine_prices_misses(capsys, trace, tmp_path, monkeypatch):
    from colibri_lab.profiling import storage

    small = storage.measure_disk
    monkeypatch.setattr(storage, "measure_disk", lambda folder: small(folder, 32 << 20))
    path = tmp_path / "machine.json"
    status, out, err = run(capsys, "doctor", "--save", path)
    if "O_DIRECT" in err:
        pytest.skip("the file system of temporary files cannot pass the page cache by")
    assert status == 0, err
    assert "experts from disk" in out
    measured = json.loads(path.read_text())
    assert measured["disk"]["gbps"] > 0
    assert measured["disk"]["latency_s"] > 0
    options = ["--slots", "6", "--policy", "lru", "--machine", path]
    _, out, _ = run(capsys, "trace", "replay", trace, *options)
    assert f"{measured['disk']['gbps']:.3g} GB/s" in out
    _, out, _ = run(capsys, "trace", "replay", trace, *options, "--tier", "memory")
    assert f"{measured['memory']['gbps']:.3g} GB/s" in out
    path.write_text("{}")
    status, _, err = run(capsys, "trace", "replay", trace, *options)
    assert status == 2
    assert "doctor --save" in err


def test_recorded_traces_look_ahead(capsys, repository, tmp_path):
    out = tmp_path / "r.parquet"
    texts = [repository / "data/heldout" / name for name in ("c.txt", "prose.txt")]
    options = ["--model", repository / "data/tiny-moe", "--num-tokens", "40", "-o", out]
    assert run(capsys, "trace", "record", *texts, *options)[0] == 0
    assert read_trace(out).lookahead is not None
    (found,) = replay(capsys, out, "--slots", "8", "--policy", "lru", "--prefetch", "look-ahead")[
        "results"
    ]
    assert found["prefetch_hit_ratio"] > 0
