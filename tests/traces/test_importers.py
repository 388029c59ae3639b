"""Traces of other engines: each is recognised, read as its engine meant it, or refused with why.

Every sample is made by hand here; what it must read as is written beside it.
"""

from __future__ import annotations

import io
import json
import math
import pickle
import re
import struct
import zipfile
from collections import Counter, OrderedDict, defaultdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from colibri_lab.cli import main
from colibri_lab.errors import DeviceUnavailable, InputError, TraceError
from colibri_lab.traces.importers import FORMATS, ExpertHistogram, import_any, import_trace

BIGMOE = """# route_trace v1
# model=/models/toy.gguf arch=toy n_layer=2 n_expert=8 n_expert_used=2
# layer=0 expert_bytes=100 dense_bytes=5
# layer=1 expert_bytes=200 dense_bytes=5
turn,phase,step,layer,slot,expert,weight,residency,expert_bytes
0,0,0,0,0,3,0.75,0,100
0,0,0,0,1,7,0.25,0,100
0,1,1,1,0,5,0.5,1,0
0,1,1,1,1,2,0.5,0,200
"""
# Two prompt tokens, of which the last layer computes one; then a generated token.
COLIBRI = """0 0 0 3:0.75 7:0.25
0 1 0 4:0.5 1:0.5
1 0 1 5:1.0 2:0.0
2 0 0 6:0.5 0:0.5
3 0 1 1:0.5 5:0.5
"""
PASSES = [  # phase, step, layer, experts: what COLIBRI and its kin must read as
    (0, 0, 0, [3, 7]),
    (0, 1, 0, [4, 1]),
    (0, 1, 1, [5, 2]),
    (1, 2, 0, [6, 0]),
    (1, 2, 1, [1, 5]),
]
USAGE = "-1 3 8\n-2 1 glm\n0 3 10\n0 7 2\n2 1 5\n"
LLAMA = "layer,expert\n" + "".join(f"{row[2]},{name}\n" for row in PASSES for name in row[3])
HOOK = [{"layer_idx": 4 + row[2], "token_idx": row[1], "selected_ids": row[3],
         "gate_weights": [0.5, 0.5]} for row in PASSES]  # fmt: skip
ROWS = [[row[2], *row[3]] for row in PASSES]
SHORT = [{"token": row[1], "layer": row[2], "experts": row[3]} for row in PASSES]
PHASED = [{"t": row[1], "layer": row[2], "experts": row[3], "phase": ("prefill", "decode")[row[0]]}
          for row in PASSES]  # fmt: skip
ROUTES = [{"type": "meta", "model_id": "org/toy", "top_k": 2}] + [
    {"type": "route", "req_id": "a", "token_idx": row[1], "layer": row[2], "topk_ids": row[3],
     "topk_weights": [0.5, 0.5]} for row in PASSES
]  # fmt: skip
ROUTED = np.array([[[3, 7], [5, 2]], [[6, 0], [1, 5]], [[4, 4], [0, 7]]], np.int32)
COUNTS = {"0": {"3": 10, "7": 2}, "2": {"1": 5}}


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def mbolt(calls=((0, [[3, 7], [4, 1]]), (1, [[5, 2]]), (0, [[6, 0]]), (1, [[1, 5]])), experts=8):
    words = [0x544C424D, 1, experts]
    for layer, ids in calls:
        words += [layer, len(ids[0]), len(ids), *(name for row in ids for name in row)]
    return struct.pack(f"<{len(words)}i", *words)


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def npz(**arrays):
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def parquet(**changes):
    columns = {
        "prompt_id": ["p"] * 5,
        "token_idx": [row[1] for row in PASSES],
        "layer_idx": [row[2] for row in PASSES],
        "selected_experts": [row[3] for row in PASSES],
        "router_softmax": [[0.5, 0.25]] * 5,
    } | changes
    file = io.BytesIO()
    pq.write_table(pa.table({k: v for k, v in columns.items() if v is not None}), file)
    return file.getvalue()


TRACES = {  # a sample of each format that gives PASSES
    "colibri": COLIBRI,
    "llama.cpp": LLAMA,
    "mbolt": mbolt(),
    "moe-policylang": parquet(),
    "json-lines hook": lines(HOOK),
    "json-lines short": lines(SHORT),
    "json-lines phased": lines(PHASED),
    "json-lines route": lines(ROUTES),
    "json list": json.dumps(ROWS),
    "json trace": json.dumps({"model": "toy", "top_k": 2, "trace": ROWS}, indent=1),
    "json entries": json.dumps({"top_k": 2, "entries": SHORT}),
    "json data": json.dumps({"data": ROWS}),
}


@pytest.fixture
def write(tmp_path):
    def _write(content) -> Path:
        path = tmp_path / "sample"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return _write


def rows_of(trace):
    """Phase, step, layer and experts of every token in every layer."""
    columns = [getattr(trace, name)[:: trace.top_k].tolist() for name in ("phase", "step", "layer")]
    return list(zip(*columns, trace.expert.reshape(-1, trace.top_k).tolist(), strict=True))


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


# Histograms


HISTOGRAMS = {
    "usage": USAGE,
    "json": json.dumps(COUNTS),
    "json of lists": json.dumps({"0": [0, 0, 0, 10, 0, 0, 0, 2], "layer_2": [0, 5] + [0] * 6}),
    "counter": pickle.dumps({0: Counter({3: 10, 7: 2}), 2: Counter({1: 5})}),
    "defaultdict": pickle.dumps(defaultdict(Counter, {0: Counter({3: 10, 7: 2}), 2: {1: 5}})),
    "ordered": pickle.dumps(OrderedDict([(0, {3: 10, 7: 2}), (2, {1: np.int64(5)})]), 2),
    "arrays": pickle.dumps({0: np.array([0, 0, 0, 10, 0, 0, 0, 2]), 2: np.eye(8)[1] * 5}, 4),
    "old arrays": pickle.dumps({0: np.array([0, 0, 0, 10, 0, 0, 0, 2.0]), 2: {1: 5}}, 2),
}


@pytest.mark.parametrize("name", HISTOGRAMS)
def test_histograms(write, name):
    found = import_any(write(HISTOGRAMS[name]))
    assert isinstance(found, ExpertHistogram)
    assert found.load[0].tolist() == [0, 0, 0, 10, 0, 0, 0, 2]
    assert found.load[-1].tolist() == [0, 5] + [0] * 6
    assert found.layers == (0, 2)
    assert found.stats()["assignments"] == 17
    with pytest.raises(TraceError, match="in what order"):
        import_trace(write(HISTOGRAMS[name]))


def test_a_whole_array_of_counts(write):
    counts = np.arange(12).reshape(3, 4)
    for content in (npy(counts), pickle.dumps(counts), pickle.dumps(np.asfortranarray(counts), 5)):
        assert np.array_equal(import_any(write(content), "counters").load, counts)


class Runs:
    """What a hostile pickle holds: a call of the loader's own."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return (Path.touch, (Path(self.path),))


def test_a_pickle_that_would_run_code_is_refused_and_not_run(write, tmp_path):
    mark = tmp_path / "it_ran"
    content = pickle.dumps({0: Runs(mark)})
    with pytest.raises(TraceError, match="refused"):
        import_any(write(content))
    assert not mark.exists()
    pickle.loads(content)  # noqa: S301  the same bytes do run where nothing restricts them
    assert mark.exists()


def op(name, *words):
    """A pickle of protocol 2 that calls a name with text arguments."""
    module, attribute = name.rsplit(".", 1)
    text = b"".join(b"X" + struct.pack("<I", len(word)) + word.encode() for word in words)
    return b"\x80\x02c" + f"{module}\n{attribute}\n".encode() + b"(" + text + b"tR."


HOSTILE = {
    "os.system": op("os.system", "true"),
    "builtins.eval": op("builtins.eval", "1"),
    "builtins.getattr": op("builtins.getattr", "a", "b"),
    "a dotted name": op("numpy.core.multiarray.scalar.run", "a"),
    "numpy.load": op("numpy.load", "a"),
    "a call of a builtin": op("builtins.list", "a"),
    "object dtype": pickle.dumps({0: np.array([{}], object)}),
    "text dtype": pickle.dumps({0: np.array(["a"])}),
    "a change to a function": b"\x80\x02c_codecs\nencode\n}X\x01\x00\x00\x00aK\x01sb.",
    "a memo index": b"\x80\x02}r\xff\xff\xff\x7f.",
    "a length of a terabyte": b"\x80\x04\x8e" + struct.pack("<Q", 1 << 40) + b"a.",
    "a byte array of a terabyte": b"\x80\x05\x96" + struct.pack("<Q", 1 << 40) + b"a.",
    "a persistent id": b"\x80\x02K\x01Q.",
    "an array of a terabyte": pickle.dumps({0: np.zeros(3, np.int64)}, 2).replace(
        b"K\x03\x85", b"\x8a\x06\x00\x00\x00\x00\x00\x01\x85"
    ),
    "cut off": pickle.dumps({0: {1: 2}})[:-4],
}


@pytest.mark.parametrize("name", HOSTILE)
def test_pickles_that_are_refused(write, name):
    with pytest.raises(TraceError, match="refused"):
        import_any(write(HOSTILE[name]), "counters")


# Bad input


def at(rows, index, **changes):
    return lines(row | changes if i == index else row for i, row in enumerate(rows))


def huge_npy():
    """A header that promises 8 TB, followed by twelve numbers."""
    head = b"{'descr': '<i8', 'fortran_order': False, 'shape': (1000000000000, 1, 1), }"
    head = head.ljust(118 - 1) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + ROUTED.tobytes()


def bomb():
    """An archive whose directory promises far more than its bytes can hold."""
    data = bytearray(npz(a=ROUTED))
    entry = data.index(b"PK\x01\x02")
    data[entry + 24 : entry + 28] = struct.pack("<I", 0xFFFFFFF0)
    return bytes(data)


def member(name):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(name, b"nothing")
    return file.getvalue()


BIG = 10**30
BAD = [  # format, content, what the error must say
    ("bigmoe", BIGMOE[:-9], "line 9 is malformed"),
    ("bigmoe", BIGMOE.replace("0,0,0,0,0,3", "0,0,0,0,0,x"), "line 6 is malformed"),
    ("bigmoe", BIGMOE.replace("0,0,0,0,0,3", "0,0,0,0,0,-3"), "expert is out of range in row 0"),
    ("bigmoe", BIGMOE.replace("0,0,0,0,0,3", "0,0,0,0,0,8"), "expert is out of range in row 0"),
    ("bigmoe", BIGMOE.replace("0,0,0,0,1,7", "0,0,0,0,2,7"), "slot is out of range in row 1"),
    ("bigmoe", BIGMOE.replace("n_expert=8", f"n_expert={BIG}"), "make no sense"),
    ("bigmoe", BIGMOE.replace("n_expert_used=2", "n_expert_used=9"), "make no sense"),
    (
        "bigmoe",
        BIGMOE.replace("n_layer=2", "n_layer=9999").replace("n_expert=8", "n_expert=999999"),
        "make no sense",
    ),
    ("bigmoe", BIGMOE.replace("# layer=1", "# lay=1"), "lacks the size"),
    ("bigmoe", BIGMOE[: BIGMOE.index("0,0,0")], "is empty"),
    ("bigmoe", BIGMOE.replace("0,0,0,0,0,3", f"0,0,{BIG},0,0,3"), "step is out of range in row 0"),
    ("bigmoe", BIGMOE.replace("0,0,0,0,0,3", "-1,0,0,0,0,3"), "turn is out of range in row 0"),
    ("bigmoe", "", "does not say what model"),
    ("colibri", COLIBRI[:-5], "line 5 is malformed|another top-k"),
    ("colibri", COLIBRI.replace("4:0.5", "a:0.5"), "line 2 is malformed"),
    ("colibri", COLIBRI.replace("4:0.5", "-4:0.5"), "line 2 is malformed"),
    ("colibri", COLIBRI.replace("4:0.5", "4:0.5.5"), "line 2 is malformed"),
    ("colibri", COLIBRI.replace("4:0.5", "9:0.5"), "expert id is out of range in line 2"),
    ("colibri", COLIBRI.replace(" 1:0.5\n1", "\n1"), "line 2 has another top-k"),
    ("colibri", COLIBRI.replace("0 1 0", "0 3 0"), "line 2 is out of order"),
    ("colibri", COLIBRI.replace("0 0 0", f"{BIG} 0 0"), "line 1 is malformed"),
    ("colibri", COLIBRI.replace("1 0 1", "1 0 999999999"), "layer is out of range in line 3"),
    ("colibri", "", "is empty"),
    ("colibri", b"\xff\xfe\x00", "no text"),
    ("colibri-usage", USAGE[:-3], "line 5 is malformed"),
    ("colibri-usage", USAGE.replace("7 2", "x 2"), "line 4 is malformed"),
    ("colibri-usage", USAGE.replace("7 2", "-7 2"), "line 4 is malformed"),
    ("colibri-usage", USAGE.replace("7 2", "8 2"), "layer 0, expert 8 is out of range"),
    ("colibri-usage", USAGE.replace("7 2", "3 2"), "line 4 counts an expert again"),
    ("colibri-usage", USAGE.replace("-1 3 8", "-1 99999 99999999999"), "make no sense"),
    ("colibri-usage", USAGE.replace("0 7 2", f"0 7 {BIG}"), "line 4 is malformed"),
    ("colibri-usage", USAGE.replace("0 7 2", f"0 7 {10**17}"), "out of range"),
    ("colibri-usage", "-1 3 8\n", "is empty"),
    ("colibri-usage", "", "is empty"),
    ("llama.cpp", LLAMA[:-3], "line 11 is malformed"),
    ("llama.cpp", LLAMA.replace("0,4", "0,four"), "line 4 is malformed"),
    ("llama.cpp", LLAMA.replace("0,4", "0,-4"), "line 4 is malformed"),
    ("llama.cpp", LLAMA.replace("0,4", "0,9"), "expert id is out of range in line 4"),
    ("llama.cpp", LLAMA.replace("0,4", f"0,{BIG}"), "line 4 is malformed"),
    ("llama.cpp", LLAMA.replace("1,5\n1,2\n", "1,5\n1,5\n"), "top-k cannot be told"),
    ("llama.cpp", "layer,expert\n0,1\n0,2\n", "top-k cannot be told"),
    ("llama.cpp", "layer,expert\n", "is empty"),
    ("llama.cpp", "", "is empty"),
    ("mbolt", mbolt()[:-4], "cut off"),
    ("mbolt", mbolt()[:-2], "header"),
    ("mbolt", mbolt(experts=-1), "make no sense"),
    ("mbolt", mbolt(experts=2**31 - 1), "make no sense"),
    ("mbolt", mbolt(((0, [[3, -7]]),)), "negative expert id"),
    ("mbolt", mbolt(((0, [[3, 8]]),)), "expert id is out of range in token row 0"),
    ("mbolt", mbolt(((0, [[3, 7]]), (1, [[3]]))), "another top-k"),
    ("mbolt", mbolt(()), "is empty"),
    ("mbolt", mbolt() + struct.pack("<3i", 0, 2, 2**31 - 1), "makes no sense"),
    ("mbolt", mbolt() + struct.pack("<3i", 0, 2**31 - 1, 2), "makes no sense"),
    ("mbolt", mbolt() + struct.pack("<3i", -5, 2, 1), "makes no sense"),
    ("mbolt", mbolt() + struct.pack("<i", 0), "makes no sense"),
    ("mbolt", "", "header"),
    ("json-lines", lines(SHORT)[:-9], "line 5 is no JSON"),
    ("json-lines", at(SHORT, 1, experts="3,7"), "line 2 is malformed"),
    ("json-lines", at(SHORT, 1, experts=[3, "7"]), "line 2 is malformed"),
    ("json-lines", at(SHORT, 1, experts=[3, True]), "line 2 is malformed"),
    ("json-lines", at(SHORT, 1, experts=[3, 7.5]), "line 2 is malformed"),
    ("json-lines", at(SHORT, 1, experts=[3, -7]), "line 2 is malformed"),
    ("json-lines", at(SHORT, 1, experts=[3, 9]), "expert id is out of range in line 2"),
    ("json-lines", at(SHORT, 1, experts=[3]), "line 2 has another top-k"),
    ("json-lines", at(SHORT, 1, experts=[]), "line 2 is malformed"),
    ("json-lines", at(SHORT, 1, experts=[3, BIG]), "line 2 is malformed"),
    ("json-lines", at(SHORT, 1, layer=BIG), "line 2 is malformed"),
    ("json-lines", at(SHORT, 1, layer=20_000), "layer is out of range in line 2"),
    ("json-lines", at(SHORT, 1, token=-1), "line 2 is malformed"),
    ("json-lines", at(SHORT, 1, layer=None), "line 2 is malformed"),
    ("json-lines", at(PHASED, 1, phase="warm"), "line 2 is malformed"),
    ("json-lines", at(PHASED, 1, phase=None), "differ in having a phase"),
    ("json-lines", at(ROUTES, 1, topk_weights=[0.5]), "line 2 is malformed"),
    ("json-lines", at(ROUTES, 1, topk_weights=[0.5, math.nan]), "line 2 is malformed"),
    ("json-lines", at(ROUTES, 1, topk_weights=[0.5, "1"]), "line 2 is malformed"),
    ("json-lines", at(ROUTES, 1, req_id=[1]), "line 2 is malformed"),
    ("json-lines", at(ROUTES, 1, type="other"), "line 2 is malformed"),
    ("json-lines", at(SHORT, 1, token="9"), "line 2 is malformed"),
    ("json-lines", lines([{"layer": 1}]), "line 1 is malformed"),
    ("json-lines", lines([{"experts": [1]}]), "line 1 is malformed"),
    ("json-lines", "[" * 100_000, "line 1 is no JSON"),
    ("json-lines", '{"layer": ' + "9" * 5000 + "}", "line 1 is no JSON"),
    ("json-lines", "[1]\n", "line 1 is malformed"),
    ("json-lines", lines([ROUTES[0]]), "is empty"),
    ("json-lines", lines([{"layer": 0, "experts": [-1]}]), "no token has an expert"),
    ("json-lines", "", "is empty"),
    ("json", json.dumps(ROWS)[:-4], "no JSON"),
    ("json", json.dumps([[0, 1.5]]), "row 0 is malformed"),
    ("json", json.dumps([[0, -2]]), "row 0 is malformed"),
    ("json", json.dumps([[0, 9]]), "expert id is out of range in row 0"),
    ("json", json.dumps([[0, BIG]]), "row 0 is malformed"),
    ("json", json.dumps([[0, 1, 2], [1, 1]]), "row 1 has another top-k"),
    ("json", json.dumps([[0]]), "row 0 is malformed"),
    ("json", json.dumps(["a"]), "row 0 is malformed"),
    ("json", json.dumps({"top_k": 3, "trace": ROWS}), "another top-k than the file says"),
    ("json", json.dumps({"num_experts": BIG, "trace": ROWS}), "head is malformed"),
    ("json", json.dumps({"trace": 3}), "the file is malformed"),
    ("json", json.dumps({"rows": ROWS}), "the file is malformed"),
    ("json", "[]", "is empty"),
    ("json", "", "no JSON"),
    ("json", b"\xff", "no text"),
    ("moe-policylang", parquet()[:-20], "cannot be read"),
    ("moe-policylang", parquet(layer_idx=None), "none named layer_idx"),
    ("moe-policylang", parquet(layer_idx=["a"] * 5), "row 0 is malformed"),
    ("moe-policylang", parquet(layer_idx=[0.5] * 5), "row 0 is malformed"),
    ("moe-policylang", parquet(selected_experts=[1] * 5), "row 0 is malformed"),
    ("moe-policylang", parquet(selected_experts=[[1, None]] * 5), "row 0 is malformed"),
    ("moe-policylang", parquet(selected_experts=[[1, -2]] * 5), "row 0 is malformed"),
    ("moe-policylang", parquet(selected_experts=[[1, 9]] * 5), "expert id is out of range"),
    ("moe-policylang", parquet(selected_experts=[[1, 2]] * 4 + [[1]]), "row 4"),
    ("moe-policylang", parquet(selected_experts=[[1, 2**40]] * 5), "row 0 is malformed"),
    ("moe-policylang", parquet(token_idx=[-1] * 5), "row 0 is malformed"),
    ("moe-policylang", parquet(selected_experts=[None] * 5), "row 0 is malformed"),
    ("moe-policylang", "", "cannot be read"),
    ("vllm", npy(ROUTED)[:-4], "not as long as its shape"),
    ("vllm", npy(ROUTED)[:20], "no NumPy array"),
    ("vllm", npy(ROUTED.astype(float)), "no array of whole numbers"),
    ("vllm", npy(np.array([[[{}]]], object)), "no array of whole numbers"),
    ("vllm", npy(ROUTED - 5), "expert id is out of range in token row 0"),
    ("vllm", npy(ROUTED + 5), "expert id is out of range in token row 0"),
    ("vllm", npy(ROUTED[0]), "another shape"),
    ("vllm", npy(ROUTED[:0]), "is empty"),
    ("vllm", npz(a=ROUTED, b=ROUTED[:, :, :1]), "another top-k"),
    ("vllm", npz(a=ROUTED)[:-30], "cannot be read"),
    ("vllm", bomb(), "as large as it says"),
    ("vllm", member("a.npy"), "no NumPy array"),
    ("vllm", huge_npy(), "not as long as its shape"),
    ("vllm", "", "no NumPy array"),
    ("counters", json.dumps(COUNTS)[:-3], "cannot be read"),
    ("counters", json.dumps({"0": {"3": "a"}}), "layer 0, expert 3 is malformed"),
    ("counters", json.dumps({"0": {"3": 1.5}}), "layer 0, expert 3 is malformed"),
    ("counters", json.dumps({"0": {"3": -1}}), "layer 0, expert 3 is malformed"),
    ("counters", json.dumps({"0": {"3": BIG}}), "layer 0, expert 3 is malformed"),
    ("counters", '{"0": {"3": NaN}}', "layer 0, expert 3 is malformed"),
    ("counters", json.dumps({"0": {"9": 1}}), "layer 0, expert 9 is out of range"),
    ("counters", json.dumps({"0": {"-1": 1}}), "an expert of layer 0 is malformed"),
    ("counters", json.dumps({"0": {"999999999": 1}}), "out of range"),
    ("counters", json.dumps({"99999": {"1": 1}}), "out of range"),
    ("counters", json.dumps({"first": {"1": 1}}), "layer's name is malformed"),
    ("counters", json.dumps({"0": 3}), "layer 0 is malformed"),
    ("counters", json.dumps(3), "the file is malformed"),
    ("counters", "{}", "is empty"),
    ("counters", "", "cannot be read"),
    ("counters", npy(ROUTED), "the array is malformed"),
    ("counters", pickle.dumps({-1: {0: 1}}), "out of range"),
    ("counters", pickle.dumps({0: np.zeros((2, 2))}), "layer 0 is malformed"),
]


@pytest.mark.parametrize(
    ("name", "content", "text"), BAD, ids=[f"{i}-{row[0]}" for i, row in enumerate(BAD)]
)
def test_bad_files(write, name, content, text):
    path = write(content)
    experts = 0 if name in ("bigmoe", "mbolt", "colibri-usage") else 8
    with pytest.raises(TraceError, match=text) as caught:
        import_any(path, name, num_experts=experts)
    assert caught.value.path == str(path)
    assert caught.value.expected is not None or caught.value.found is not None


def test_ids_that_would_need_a_huge_table(write):
    for content in (LLAMA.replace("0,4", "0,999999999"), at(SHORT, 1, experts=[3, 2**31 - 1])):
        with pytest.raises(TraceError, match="out of range"):
            import_trace(write(content))
    with pytest.raises(TraceError, match="make no sense"):
        import_trace(write(COLIBRI), num_experts=2**40)


@pytest.mark.parametrize("content", ["", "hello\n", b"\x00" * 50, "{}", "[]", member("a.txt")])
def test_no_known_format(write, content):
    with pytest.raises(TraceError, match=r"no known trace format|is empty"):
        import_any(write(content))


@pytest.mark.parametrize("name", ["", *sorted(set(FORMATS) - {"sglang"})])
def test_any_bytes_are_an_error_or_a_trace(write, name):
    """Every sample, cut or changed anywhere, read as any format."""
    rng = np.random.default_rng(1)
    samples = [*TRACES.values(), *HISTOGRAMS.values(), BIGMOE, npy(ROUTED), npz(a=ROUTED)]
    for content in samples:
        data = bytearray(content.encode() if isinstance(content, str) else content)
        for _ in range(4):
            spoiled = data[: rng.integers(len(data))] if rng.random() < 0.3 else bytearray(data)
            for place in rng.integers(len(spoiled) or 1, size=min(2, len(spoiled))):
                spoiled[place] = rng.integers(256)
            try:
                found = import_any(write(bytes(spoiled)), name or "auto")
            except (TraceError, DeviceUnavailable):
                continue
            assert found.num_experts > 0 if not isinstance(found, ExpertHistogram) else True


def test_what_is_given_is_checked(write):
    with pytest.raises(InputError, match="not known"):
        import_trace(write(COLIBRI), "other")
    with pytest.raises(InputError, match="negative"):
        import_trace(write(COLIBRI), expert_bytes=-1)
    with pytest.raises(TraceError, match="another number of experts"):
        import_trace(write(mbolt()), num_experts=9)
    with pytest.raises(FileNotFoundError):
        import_trace(Path("/nowhere/at/all"))


# SGLang


def test_without_torch_sglang_is_a_clear_error(write, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(DeviceUnavailable, match="need torch"):
        import_trace(write(member("archive/data.pkl")))


@pytest.fixture
def saved(write):
    torch = pytest.importorskip("torch", reason="torch is not installed")

    def _saved(content):
        file = io.BytesIO()
        torch.save(content, file)
        return write(file.getvalue())

    return _saved


def records(*passes):
    import torch

    return {"records": [{"topk_ids_of_layer": torch.tensor(ids), "forward_mode": mode}
                        for ids, mode in passes]}  # fmt: skip


def test_sglang(saved):
    dense, none = [[-1, -1, -1]] * 2, [[-1, -1, -1]]
    prefill = [dense, [[3, 7, -1], [4, 1, -1]], [[-1, -1, -1], [5, 2, -1]]]
    decode = [none, [[6, 0, -1]], [[1, 5, -1]]]
    trace = import_trace(saved(records((prefill, 1), (decode, 2))))
    assert rows_of(trace) == PASSES
    assert "recorded as 3, 2 used" in trace.source


def test_sglang_counts(saved):
    torch = pytest.importorskip("torch")
    found = import_any(saved({"logical_count": torch.arange(12).reshape(2, 2, 3)}))
    assert found.load.tolist() == [[6, 8, 10], [12, 14, 16]]


def test_bad_sglang(saved, write, tmp_path):
    torch = pytest.importorskip("torch")
    ids = torch.tensor([[[3, 7]]])
    bad = [
        ({"records": [{"topk_ids_of_layer": ids * 1.0}]}, "malformed"),
        ({"records": [{"topk_ids_of_layer": ids[0]}]}, "malformed"),
        ({"records": [{"topk_ids_of_layer": ids - 9}]}, "out of range"),
        ({"records": [{"topk_ids_of_layer": ids}, {"topk_ids_of_layer": ids[:, :, :1]}]}, "top-k"),
        ({"records": [{"topk_ids_of_layer": ids[:1].expand(1, 10**6, 2)}]}, "as large as"),
        ({"records": []}, "is empty"),
        ({"logical_count": -ids}, "malformed"),
        ([1], "malformed"),
        ({"other": 1}, "malformed"),
        (Runs(tmp_path / "it_ran"), "cannot be read"),
    ]
    for content, text in bad:
        with pytest.raises(TraceError, match=text):
            import_any(saved(content), "sglang")
    assert not (tmp_path / "it_ran").exists()
    whole = saved(records(([[[3, 7]]], 2))).read_bytes()
    for content in (whole[:-40], b"", b"PK\x03\x04"):
        with pytest.raises(TraceError, match="cannot be read"):
            import_any(write(content), "sglang")


# The command


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


def test_errors_name_the_hint(write):
    with pytest.raises(TraceError) as caught:
        import_trace(write(COLIBRI.replace("4:0.5", "a:0.5")))
    assert re.search(r"where: .*\n.*expected: .*\n.*found: .*\n.*to do: ", str(caught.value))
