"""SGLang's recordings, which need torch to be read."""

from __future__ import annotations

import io

import pytest

from colibri_lab.errors import DeviceUnavailable, TraceError
from colibri_lab.traces.importers import import_any, import_trace
from tests.traces.samples import (
    PASSES,
    Runs,
    member,
    rows_of,
)


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
