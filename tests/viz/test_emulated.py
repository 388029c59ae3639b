"""Cells of an emulated device: their counters are shown, and no time of theirs anywhere."""

import re

import numpy as np
import pandas as pd
import pytest

from colibri_lab.errors import InputError
from colibri_lab.experiments import Run, Sweep
from colibri_lab.viz import plots
from colibri_lab.viz.device import counter_axis, device_counters
from colibri_lab.viz.figures import report_figures
from colibri_lab.viz.findings import findings
from colibri_lab.viz.report import render
from colibri_lab.viz.select import emulated, measured
from colibri_lab.viz.theme import DARK, LIGHT, svg
from colibri_lab.viz.widgets import latency_picture
from tests.viz.runs import DEVICE, make_run, with_emulated


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("real"))


@pytest.fixture(scope="module")
def mixed(real, tmp_path_factory):
    return with_emulated(real, tmp_path_factory.mktemp("mixed") / "run")


@pytest.fixture(scope="module")
def alone(real, tmp_path_factory):
    return with_emulated(real, tmp_path_factory.mktemp("alone") / "run", alone=True)


def test_what_is_said_of_time_is_the_same_with_emulated_cells_and_without(real, mixed):
    before, after = findings(real), findings(mixed)
    assert after[:-1] == before
    assert after[-1].startswith(f"On {DEVICE}, where nothing was timed")
    assert "3.00 MiB of global memory, 2.25 sectors a request, with 7,654 bank" in after[-1]
    assert "1.25 µs at best" in after[-1]


def test_figures_of_time_are_the_same_with_emulated_cells_and_without(real, mixed):
    before = {figure.name: figure for figure in report_figures(real)}
    after = {figure.name: figure for figure in report_figures(mixed)}
    assert set(after) == {*before, "device"}
    for name, figure in before.items():
        assert after[name].alt == figure.alt
        assert svg(after[name].draw, LIGHT) == svg(figure.draw, LIGHT)
    assert DEVICE in after["device"].title
    assert DEVICE in after["device"].alt


@pytest.mark.parametrize("kept", ["mixed", "alone"])
def test_the_counters_are_in_a_table_and_no_time_is(kept, request):
    run = request.getfixturevalue(kept)
    page = render(run)
    tables = page.partition(f"Cells on {DEVICE}</h3>")[2].partition("</table>")
    rows = re.findall(r"<tr><td>(.*?)</tr>", tables[0])
    assert len(rows) == len(emulated(measured(run))) > 0
    assert all(">1,048,577<" in row and ">7,654<" in row and ">0.00125<" in row for row in rows)
    headings = re.findall(r"<th>(.*?)</th>", tables[0])
    assert not any(word in heading for heading in headings for word in ("p50", "tokens/s"))
    others = page.partition('id="cells"')[2]
    assert others.count("<tr><td>cpu<") == len(run.frame) - len(rows)
    assert "<tr><td>cuda<" not in others


def test_a_run_of_emulated_cells_alone(alone):
    names = {figure.name for figure in report_figures(alone)}
    assert names == {"cache", "load", "routing", "capacity", "device"}
    sentences = findings(alone)
    assert not any(re.search(r"latency|tokens/s|\bms\b|faster", text) for text in sentences)
    assert any("of the look-ups miss" in text for text in sentences)
    page = render(alone)
    assert "What does an MoE layer ask of a GPU?" in page
    assert "No GPU computed this." in page
    assert 'id="cells"' not in page


def test_a_base_that_is_emulated_gives_way_to_a_real_one(mixed, monkeypatch):
    manifest = mixed.manifest
    manifest["grid"]["base"] |= {"backend": "cuda"}
    monkeypatch.setattr(Run, "manifest", property(lambda _: manifest))
    figures = {figure.name: figure for figure in report_figures(mixed)}
    assert "backend cpu" in figures["latency"].caption
    assert "backend cuda" not in figures["latency"].caption
    assert "Backend cuda" in figures["device"].caption


def test_a_plot_of_times_refuses_an_emulated_cell(mixed, alone):
    frame = measured(mixed)
    options = {"ylabel": "", "title": ""}
    drawn = [
        lambda: plots.latency_by_axis({"batch_size": frame}, {}, LIGHT),
        lambda: plots.against_floor(frame, LIGHT),
        lambda: latency_picture(frame),
        lambda: latency_picture(measured(alone).assign(latency_p50_ms=1.0)),
        *(
            lambda name=name: plots.lines(frame, "batch_size", name, "top_k", LIGHT, **options)
            for name in plots.TIMES
        ),
    ]
    for draw in drawn:
        with pytest.raises(InputError, match="times of an emulated device") as caught:
            draw()
        assert DEVICE in str(caught.value.found)
    plots.lines(frame, "batch_size", "expert_miss_ratio", "top_k", LIGHT, **options)


def test_the_figure_draws_the_counters_and_names_the_device():
    cells = pd.DataFrame(
        {"batch_size": [1, 2, 4], "top_k": 2, "stream_count": 1, "expert_cache_slots": 4,
         "capacity": "none", "seq_len": 1, "cache_policy": "lru", "device": DEVICE,
         "device_bytes_moved": [1.0, 2.0, 3.0], "device_dram_bytes": [0.5, 1.0, 1.5],
         "bytes_moved": [0.4, 0.8, 1.6], "device_sectors_per_request": [4.0, 3.0, 2.0],
         "device_bank_conflicts": [0.0, 10.0, 20.0], "roofline_floor_ms": [0.001, 0.002, 0.004]}
    )  # fmt: skip
    figure = device_counters(cells, *counter_axis(cells), LIGHT)
    assert figure.get_suptitle() == f"{DEVICE}: counters and a floor, no times"
    first, *others = figure.axes
    drawn = [line.get_ydata() for line in first.lines if len(line.get_ydata())]
    for column, values in zip(
        ("device_bytes_moved", "device_dram_bytes", "bytes_moved"), drawn, strict=True
    ):
        assert np.allclose(values, cells[column] / 2**20)
    assert [list(axes.lines[0].get_ydata()) for axes in others] == [
        [4.0, 3.0, 2.0], [0.0, 10.0, 20.0], [1.0, 2.0, 4.0],
    ]  # fmt: skip
    assert svg(lambda theme: device_counters(cells, "batch_size", "top_k", theme), DARK)


def test_a_sweep_on_the_emulated_device(real, tmp_path):
    """Counters are there, whatever was compiled before."""
    pytest.importorskip("pycuda", reason="PyCUDA is not installed: make test builds it")
    options = {"batch_size": [2], "top_k": [1], "expert_cache_slots": [2], "repeats": 5}
    options |= {"backend": ["cpu", "cuda"], "inputs": "random", "out": tmp_path / "run"}
    run = Sweep(real.folder.parent / "model", **options).run()
    cells = emulated(measured(run))
    if cells.empty:
        pytest.skip("this machine has a GPU")
    assert (cells["device_bytes_moved"] > 0).all()
    assert cells[list(plots.TIMES[:4])].isna().all(axis=None)
    assert {figure.name for figure in report_figures(run)} >= {"distribution", "floor", "device"}
