"""Trace files: what is written is read, and what is none is refused."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from colibri_lab.engine import Engine
from colibri_lab.errors import TraceError
from colibri_lab.models import load_model
from colibri_lab.reference.trace import COLUMNS
from colibri_lab.traces import read_trace, write_trace
from tests.support import write_checkpoint


@pytest.fixture
def trace(tmp_path):
    write_checkpoint(tmp_path / "model")
    return load_model(tmp_path / "model").generate([5, 6, 7], 4, trace=True).trace


def test_round_trip(trace, tmp_path):
    write_trace(trace, tmp_path / "t.parquet")
    again = read_trace(tmp_path / "t.parquet")
    for name, dtype in COLUMNS.items():
        assert np.array_equal(getattr(again, name), getattr(trace, name))
        assert getattr(again, name).dtype == dtype
    assert again.expert_bytes == trace.expert_bytes == (3 * 16 * 24 * 4,) * 2
    assert (again.num_layers, again.num_experts, again.top_k) == (2, 4, 2)
    assert again.model == trace.model


def test_other_tools_read_it(trace, tmp_path):
    write_trace(trace, tmp_path / "t.parquet")
    table = pq.read_table(tmp_path / "t.parquet")
    assert table.column_names == list(COLUMNS)
    phases = table.column("phase").to_pylist()
    assert phases.count("prefill") == 3 * 2 * 2
    assert phases.count("decode") == 3 * 2 * 2


def test_the_engine_records_what_the_reference_does(trace, tmp_path):
    model = load_model(tmp_path / "model")
    with Engine.open(tmp_path / "model", stream_count=2) as engine:
        found = model.generate(
            [5, 6, 7], 4, moe=engine.run_layer, routed=engine.assigned, trace=True
        ).trace
    for name in COLUMNS:
        assert getattr(found, name) == pytest.approx(getattr(trace, name), abs=1e-5)


def change(path, columns=None, header=None, drop=()):
    table = pq.read_table(path)
    for name, values in (columns or {}).items():
        table = table.set_column(table.column_names.index(name), name, pa.array(values))
    table = table.drop_columns(list(drop))
    metadata = dict(table.schema.metadata)
    if header is not None:
        stored = json.loads(metadata[b"colibri_lab.trace"])
        metadata[b"colibri_lab.trace"] = json.dumps({**stored, **header}).encode()
    pq.write_table(table.replace_schema_metadata(metadata), path)


def high_expert(path, trace):
    change(path, {"expert": np.where(np.arange(len(trace)) == 3, 4, trace.expert)})


def negative_step(path, trace):
    change(path, {"step": trace.step - 1})


def high_layer(path, trace):
    change(path, {"layer": trace.layer + 1})


def no_column(path, trace):
    change(path, drop=["expert"])


def other_version(path, trace):
    change(path, header={"version": 2})


def wrong_sizes(path, trace):
    change(path, header={"expert_bytes": [1]})


def huge_sizes(path, trace):
    change(path, header={"num_experts": 10**12})


def text_sizes(path, trace):
    change(path, header={"num_experts": "4"})


def corrupt_header(path, trace):
    change(path, header={"expert_bytes": "many"})


def no_header(path, trace):
    pq.write_table(pa.table({"a": [1]}), path)


def truncated(path, trace):
    path.write_bytes(path.read_bytes()[:-20])


def no_parquet(path, trace):
    path.write_text("layer,expert\n0,1\n")


def text_experts(path, trace):
    change(path, {"expert": ["many"] * len(trace)})


def other_phase(path, trace):
    change(path, {"phase": ["warm-up"] * len(trace)})


def holes(path, trace):
    change(path, {"step": [None, *trace.step[1:].tolist()]})


BAD = {
    high_expert: "expert is out of range in row 3",
    negative_step: "step is out of range",
    high_layer: "layer is out of range",
    no_column: "none named expert",
    other_version: "another version",
    huge_sizes: "sizes make no sense",
    text_sizes: "sizes make no sense",
    wrong_sizes: "one value a layer",
    corrupt_header: "header is corrupt",
    no_header: "no trace header",
    truncated: "cannot be read",
    no_parquet: "cannot be read",
    text_experts: "expert is of another type",
    other_phase: "phase is of another type",
    holes: "step has holes",
}


@pytest.mark.parametrize("spoil", BAD, ids=lambda spoil: spoil.__name__)
def test_bad_files(trace, tmp_path, spoil):
    path = tmp_path / "t.parquet"
    write_trace(trace, path)
    spoil(path, trace)
    with pytest.raises(TraceError, match=BAD[spoil]):
        read_trace(path)
