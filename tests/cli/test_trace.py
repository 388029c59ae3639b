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
        (["--slots", "6", "--pins", "-1"], "pins cannot be negative"),
        (["--slots", "6", "--depth", "4"], "nothing is read ahead"),
        (["--slots", "6", "--prefetch", "markov", "--depth", "0"], "depth must be positive"),
        (["--slots", "6", "--top-k", "0"], "top_k is out of range"),
        (["--slots", "6", "--disk-gbps", "0"], "a tier makes no sense"),
        (["--slots", "6", "--host-mib", "0"], "needs its size"),
        (["--slots", "6", "--latency-us", "inf"], "a tier makes no sense"),
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
    if "O_DIRECT" in err or "in memory" in err:
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


TIER = {"gbps": 1.0, "latency_s": 0.0, "concurrency": 1}


@pytest.mark.parametrize(
    "change",
    [
        {"disk": {**TIER, "gbps": "fast"}},
        {"disk": {**TIER, "gbps": None}},
        {"memory": {**TIER, "gbps": float("nan")}},
        {"memory": {**TIER, "concurrency": 1.5}},
        {"disk": []},
        {"version": 2},
    ],
)
def test_machines_that_nothing_measured(capsys, trace, tmp_path, change):
    path = tmp_path / "machine.json"
    path.write_text(json.dumps({"version": 1, "disk": TIER, "memory": TIER}))
    replay(capsys, trace, "--slots", "6", "--machine", path)
    path.write_text(json.dumps({"version": 1, "disk": TIER, "memory": TIER, **change}))
    status, out, _ = run(
        capsys, "trace", "replay", trace, "--slots", "6", "--machine", path, "--json"
    )
    assert status == 2
    assert json.loads(out)["error"]["path"] == str(path)


def test_a_machine_nested_past_the_parser(capsys, trace, tmp_path):
    path = tmp_path / "machine.json"
    path.write_text("[" * 200_000)
    status, _, err = run(capsys, "trace", "replay", trace, "--slots", "6", "--machine", path)
    assert status == 2
    assert "no measured machine" in err


def test_what_is_said_of_a_long_trace_is_not_passed_over(capsys, trace, monkeypatch):
    monkeypatch.setattr(replaying, "STREAM_FROM", 100)
    for options in (["--expert-bytes", "7"], ["--num-experts", "7"], ["--format", "json"]):
        status, _, err = run(capsys, "trace", "replay", trace, "--slots", "6", *options)
        assert status == 2
        assert "the trace " in err
    status, _, _ = run(capsys, "trace", "replay", trace, "--slots", "6", "--expert-bytes", SIZE)
    assert status == 0


def test_a_long_trace_that_is_emptied_while_it_is_read(capsys, trace, monkeypatch):
    monkeypatch.setattr(replaying, "is_long", lambda path: True)
    empty = read_trace(trace)
    write_trace(empty.rows(slice(0)), trace)
    status, _, err = run(capsys, "trace", "replay", trace, "--slots", "6")
    assert status == 2
    assert "the trace is empty" in err


@pytest.mark.parametrize("devices", [",", "3"])
def test_devices_that_hold_no_experts(capsys, trace, devices):
    status, _, err = run(capsys, "trace", "place", trace, "--devices", devices)
    assert status == 2
    assert "device" in err


def test_a_text_of_no_tokens(capsys, repository, tmp_path):
    status, _, err = run(
        capsys, "trace", "record", "--model", repository / "data" / "tiny-moe",
        repository / "data" / "heldout" / "c.txt", "--num-tokens", "-5", "-o", tmp_path / "t",
    )  # fmt: skip
    assert status == 2
    assert "--num-tokens" in err


def test_the_verdict_of_a_trace_looks_at_its_beginning_and_says_so(capsys, trace, monkeypatch):
    whole = replay(capsys, trace, "--slots", "6")
    monkeypatch.setattr(replaying, "JUDGED", 300)
    found = replay(capsys, trace, "--slots", "6")
    assert found["results"] == whole["results"]
    assert found["verdict"].startswith("Of its first 300 assignments: ")
