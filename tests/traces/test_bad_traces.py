"""Files that are none, or spoiled: each is an error that says where and what."""

from __future__ import annotations

import json
import math
import pickle
import re
import struct
from pathlib import Path

import numpy as np
import pytest

from colibri_lab.errors import DeviceUnavailable, InputError, TraceError
from colibri_lab.traces.importers import FORMATS, ExpertHistogram, import_any, import_trace
from tests.traces.samples import (
    BIGMOE,
    COLIBRI,
    COUNTS,
    HISTOGRAMS,
    LLAMA,
    PHASED,
    ROUTED,
    ROUTES,
    ROWS,
    SHORT,
    TRACES,
    USAGE,
    lines,
    mbolt,
    member,
    npy,
    npz,
    parquet,
)


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
    with pytest.raises(InputError, match="num_experts is out of range"):
        import_trace(write(COLIBRI), num_experts=2**40)
    with pytest.raises(TraceError, match="make no sense"):
        import_trace(write(COLIBRI), num_experts=2**24)


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
    for size in (-1, 2**62, 10**30):
        with pytest.raises(InputError, match="expert_bytes is out of range"):
            import_trace(write(COLIBRI), expert_bytes=size)
    with pytest.raises(TraceError, match="another number of experts"):
        import_trace(write(mbolt()), num_experts=9)
    for content in (BIGMOE, USAGE):
        with pytest.raises(TraceError, match="another number of experts"):
            import_any(write(content), num_experts=9)
    with pytest.raises(TraceError, match="another size of an expert"):
        import_trace(write(BIGMOE), expert_bytes=9)
    with pytest.raises(FileNotFoundError):
        import_trace(Path("/nowhere/at/all"))


def test_errors_name_the_hint(write):
    with pytest.raises(TraceError) as caught:
        import_trace(write(COLIBRI.replace("4:0.5", "a:0.5")))
    assert re.search(r"where: .*\n.*expected: .*\n.*found: .*\n.*to do: ", str(caught.value))
