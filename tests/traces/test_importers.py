"""Traces of other engines: each is recognised and read as its engine meant it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from colibri_lab.cli import main
from colibri_lab.traces.importers import FORMATS, import_trace
from tests.traces.samples import (
    BIGMOE,
    COLIBRI,
    HOOK,
    LLAMA,
    PASSES,
    ROUTED,
    ROUTES,
    TRACES,
    USAGE,
    lines,
    mbolt,
    npy,
    npz,
    parquet,
    rows_of,
)


@pytest.mark.parametrize("name", TRACES)
def test_recognised_and_read(write, name):
    trace = import_trace(write(TRACES[name]))
    assert rows_of(trace) == PASSES
    assert (trace.num_layers, trace.num_experts, trace.top_k) == (2, 8, 2)
    assert trace.expert_bytes == (0, 0)
    assert not trace.request.any()
    assert trace.slot.tolist() == [0, 1] * 5


@pytest.mark.parametrize("name", TRACES)
def test_each_is_recognised_by_its_own_format_alone(write, name):
    content = TRACES[name]
    head = (content.encode() if isinstance(content, str) else content)[:4096]
    known = {found.name for found in FORMATS.values() if found.recognise(head)}
    assert known - {"colibri-lab"} == {name.split()[0]}  # both Parquet kinds begin alike


def test_sizes_that_are_given(write):
    trace = import_trace(write(COLIBRI), expert_bytes=12, num_experts=64)
    assert trace.expert_bytes == (12, 12)
    assert trace.num_experts == 64
    assert "highest id" not in trace.source
    assert "highest id" in import_trace(write(COLIBRI)).source


def test_weights(write):
    assert import_trace(write(COLIBRI)).weight.tolist()[:4] == [0.75, 0.25, 0.5, 0.5]
    assert import_trace(write(parquet())).weight.tolist()[:2] == [0.5, 0.25]
    assert np.isnan(import_trace(write(LLAMA)).weight).all()
    softmax = [[0.01 * expert for expert in range(8)]] * 5  # of all experts, not of the chosen
    found = import_trace(write(parquet(router_softmax=softmax))).weight
    assert found[:2] == pytest.approx([0.03, 0.07])


def test_names(write):
    trace = import_trace(write(lines(ROUTES)))
    assert trace.model == "org/toy"
    two = [dict(row, req_id=f"r{i % 2}") for i, row in enumerate(ROUTES)]
    assert import_trace(write(lines(two[:3]))).request.tolist() == [0, 0, 1, 1]


def test_layers_are_numbered_anew(write):
    trace = import_trace(write(lines(HOOK)))
    assert "layer 0 is the engine's 4" in trace.source


def test_padding_goes(write):
    rows = [dict(row, topk_ids=[*row["topk_ids"], -1, -1], topk_weights=None) for row in ROUTES[1:]]
    trace = import_trace(write(lines(rows)))
    assert rows_of(trace) == PASSES
    assert "recorded as 4, 2 used" in trace.source
    rows[0]["topk_ids"] = [3, -1, -1, -1]
    assert import_trace(write(lines(rows))).expert[:2].tolist() == [3, -1]


def test_bigmoe(write):
    trace = import_trace(write(BIGMOE))
    assert rows_of(trace) == [(0, 0, 0, [3, 7]), (1, 1, 1, [5, 2])]
    assert trace.expert_bytes == (100, 200)
    assert trace.model == "toy.gguf"


def test_bigmoe_with_dropped_assignments(write):
    head, _, body = BIGMOE.partition("turn,")
    changed = [line + f",{int(i == 2)}" for i, line in enumerate(body.splitlines()[1:])]
    text = head + "\n".join(["turn," + body.splitlines()[0] + ",dropped", *changed]) + "\n"
    assert import_trace(write(text)).expert.tolist() == [3, 7, -1, 2]


@pytest.mark.parametrize(("name", "shape"), [("gptoss", (36, 128, 2)), ("qwen", (48, 128, 6))])
def test_real_files(name, shape):
    path = Path(__file__).parents[3] / f"shared/traces/bigmoeonedge/{name}.route.csv"
    if not path.exists():
        pytest.skip(f"no {path}: it is not distributed with the project")
    trace = import_trace(path)
    assert (trace.num_layers, trace.num_experts, trace.top_k) == shape
    text = path.read_text().splitlines()
    assert len(trace) == sum(not line.startswith(("#", "turn")) for line in text)


def test_vllm(write):
    trace = import_trace(write(npy(ROUTED)))
    assert rows_of(trace)[:3] == [(1, 0, 0, [3, 7]), (1, 0, 1, [5, 2]), (1, 1, 0, [6, 0])]
    assert len(trace) == ROUTED.size
    assert rows_of(import_trace(write(npy(np.asfortranarray(ROUTED))))) == rows_of(trace)
    both = import_trace(write(npz(a=ROUTED, b=ROUTED[:1].astype(np.int16))))
    assert both.request.tolist() == [0] * 12 + [1] * 4
    assert both.step[-4:].tolist() == [0] * 4


def command(capsys, *arguments):
    status = main(["trace", *map(str, arguments)])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.mark.parametrize("name", TRACES)
def test_every_format_replays_alike(write, capsys, name):
    """Seven look-ups in prefill and four in decode; one expert comes again (5, in layer 1)."""
    path = write(TRACES[name])
    sizes = ("--expert-bytes", 1 << 20, "--num-experts", 8)
    status, out, _ = command(capsys, "replay", path, *sizes, "--budget-mib", "100", "--json")
    assert status == 0
    for result in json.loads(out)["results"]:
        assert result["prefill_hit_ratio"] == 0
        assert result["decode_hit_ratio"] == 1 / 4
        assert result["bytes_read"] == 9 << 20


def test_without_sizes_a_replay_says_what_to_give(write, capsys):
    status, _, err = command(capsys, "replay", write(COLIBRI), "--budget-mib", "100")
    assert status != 0
    assert "how large experts are" in err


def test_import_with_a_format_and_sizes(write, tmp_path, capsys):
    out = tmp_path / "own.parquet"
    given = ("--format", "mbolt", "--expert-bytes", 7, "-o", out)
    assert command(capsys, "import", write(mbolt()), *given)[0] == 0
    trace = import_trace(out)
    assert rows_of(trace) == PASSES
    assert trace.expert_bytes == (7, 7)


def test_a_histogram_has_figures_and_no_replay(write, capsys):
    path = write(USAGE)
    status, out, err = command(capsys, "stats", path)
    assert status == 0
    assert re.search(r"assignments +17", out)
    assert "no order" in err
    assert json.loads(command(capsys, "stats", path, "--json")[1])["num_experts"] == 8
    status, _, err = command(capsys, "replay", path, "--budget-mib", 100)
    assert status != 0
    assert "in what order" in err
