"""A small file of every format, made by hand, and what each must read as."""

from __future__ import annotations

import io
import json
import pickle
import struct
import zipfile
from collections import Counter, OrderedDict, defaultdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

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


def rows_of(trace):
    """Phase, step, layer and experts of every token in every layer."""
    columns = [getattr(trace, name)[:: trace.top_k].tolist() for name in ("phase", "step", "layer")]
    return list(zip(*columns, trace.expert.reshape(-1, trace.top_k).tolist(), strict=True))


class Runs:
    """What a hostile pickle holds: a call of the loader's own."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return (Path.touch, (Path(self.path),))


def member(name):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(name, b"nothing")
    return file.getvalue()
