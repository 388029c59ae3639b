"""The report: complete, self-contained, escaped, honest; and the figures it is made of."""

import base64
import json
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from colibri_lab.errors import DeviceUnavailable, InputError, RunError
from colibri_lab.experiments import Run
from colibri_lab.viz import pdf as pdf_module
from colibri_lab.viz.figures import report_figures
from colibri_lab.viz.findings import _cache_and_batch, _capacity, _top_k, findings
from colibri_lab.viz.report import render, write_report
from colibri_lab.viz.select import around, base_cell, measured
from colibri_lab.viz.theme import DARK, LIGHT, svg
from tests.viz.runs import make_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("report"))


class Page(HTMLParser):
    """Tags with their attributes, and the text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


def test_nothing_is_fetched(run):
    page = Page(render(run))
    for tag, attributes in page.tags:
        for name in ("src", "href", "srcset", "action"):
            assert attributes.get(name, "#").startswith(("data:", "#")), (tag, attributes)
    assert not page.all("script")
    assert not page.all("link")
    assert "@import" not in render(run)
    assert "url(" not in render(run)


def test_every_figure_has_two_looks_and_words(run):
    page = Page(render(run))
    images, sources = page.all("img"), page.all("source")
    assert len(images) == len(sources) == 8
    for image, source in zip(images, sources, strict=True):
        assert len(image["alt"]) > 60
        assert re.search(r"\d", image["alt"])
        assert "dark" in source["media"]
        assert image["src"] != source["srcset"]
        for uri in (image["src"], source["srcset"]):
            content = base64.b64decode(uri.partition("base64,")[2])
            assert ET.fromstring(content).tag.endswith("svg")


SECTIONS = [
    "findings", "setup", "figures", "latency", "distribution", "throughput", "cache", "load",
    "routing", "capacity", "floor", "cells", "limits", "provenance",
]  # fmt: skip


def test_the_report_answers_in_order(run):
    found = [attributes["id"] for _, attributes in Page(render(run)).tags if "id" in attributes]
    assert found == SECTIONS
    text = " ".join(Page(render(run)).text)
    for wanted in ("measured", "fingerprint", "seed", "roofline floor", "commit"):
        assert wanted in text.lower()


def test_synthetic_inputs_are_marked_everywhere(run):
    page = render(run)
    assert "Synthetic inputs." in page
    assert page.count("(synthetic inputs)") == 8


def test_every_cell_is_in_the_table(run):
    rows = [row for row in re.findall(r"<tr>(.*?)</tr>", render(run)) if row.startswith("<td>cpu<")]
    frame = run.frame
    assert len(rows) == len(frame)
    for p50 in frame["latency_p50_ms"]:
        assert any(f">{p50:.3f}<" in row for row in rows)


def test_findings_say_what_the_records_say(run):
    frame, base = measured(run), base_cell(run)
    sentences = " ".join(findings(run))
    few, many = around(frame, base, "expert_cache_slots").iloc[[0, -1]].to_dict("records")
    assert f"{few['expert_miss_ratio']:.0%} of the look-ups miss" in sentences
    assert f"{many['latency_p50_ms']:.2f} ms" in sentences
    hard = around(frame, base, "capacity").iloc[-1]
    assert f"hard:1 drops {hard['dropped_fraction']:.1%}" in sentences


def shown(**columns):
    """A table of cells around a base, as `findings` is given it."""
    count = len(next(iter(columns.values())))
    axes = {"backend": "cpu", "batch_size": 4, "seq_len": 1, "top_k": 2, "stream_count": 1,
            "capacity": "none", "expert_cache_slots": 4, "cache_policy": "lru"}  # fmt: skip
    frame = pd.DataFrame({name: [value] * count for name, value in axes.items()} | columns)
    return frame, axes


def test_more_experts_are_not_said_to_read_better_where_they_do_not():
    ms = [1.0, 2.0, 3.0]
    text = _top_k(*shown(top_k=[1, 2, 4], latency_p50_ms=ms, perplexity=[13.3, 11.4, 12.2]))
    assert text.endswith("lowest with top-2; more experts than that do not lower it.")
    text = _top_k(*shown(top_k=[1, 2, 4], latency_p50_ms=ms, perplexity=[13.3, 12.2, 11.4]))
    assert text.endswith("Perplexity is lowest with top-4.")
    text = _top_k(*shown(top_k=[1, 2, 4], latency_p50_ms=ms, perplexity=[np.nan] * 3))
    assert "erplexity" not in text


def test_loads_grow_only_where_they_do():
    sizes = [1, 4, 16]
    rising = _cache_and_batch(*shown(batch_size=sizes, expert_loads_per_request=[1.0, 2.0, 3.0]))
    level = _cache_and_batch(*shown(batch_size=sizes, expert_loads_per_request=[0.0, 0.0, 0.0]))
    assert "grow with the batch" in rising
    assert "grow" not in level


def test_perplexity_under_a_policy_names_its_own_calls():
    frame, base = shown(
        capacity=["none", "hard:1"], dropped_fraction=[0.0, 0.3], moved_fraction=[0.0, 0.0],
        capacity_rel_error=[0.0, 0.5], perplexity=[11.4, 20.7],
    )  # fmt: skip
    text = _capacity(frame, base, call_tokens=1024)
    assert "(perplexity 20.70 instead of 11.40)" in text
    assert "of layer calls of 1,024 tokens, not of these" in text


def test_captions_and_words_agree_with_the_records(run):
    figures = {figure.name: figure for figure in report_figures(run)}
    assert set(figures) == {"latency", "distribution", "throughput", "cache", "load", "routing",
                            "capacity", "floor"}  # fmt: skip
    cells = around(measured(run), base_cell(run), "batch_size")
    for p50 in cells["latency_p50_ms"]:
        assert f"{p50:.3g} ms" in figures["latency"].alt
    assert "batch size 4" in figures["latency"].caption


def test_load_and_routing_say_which_cell_they_show(run, monkeypatch):
    frame = run.frame
    kept = frame[(frame["batch_size"] == 1) & (frame["top_k"] == 1)]  # the base cell failed
    monkeypatch.setattr(Run, "frame", property(lambda _: kept))
    shown = run.samples(kept["cell_id"].iloc[0])["expert_load"]
    figures = {figure.name: figure for figure in report_figures(run)}
    for name in ("load", "routing"):
        assert "batch size 1, " in figures[name].caption
        assert "top-k 1, " in figures[name].caption
        assert "batch size 4" not in figures[name].caption
        assert figures[name].draw.args[0].tolist() == shown.tolist()


def test_figures_are_the_same_bytes_for_the_same_data(run):
    for figure in report_figures(run):
        assert svg(figure.draw, LIGHT) == svg(figure.draw, LIGHT)
        assert svg(figure.draw, LIGHT) != svg(figure.draw, DARK)


def luminance(color):
    channels = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return np.dot(linear, (0.2126, 0.7152, 0.0722))


def contrast(one, two):
    low, high = sorted((luminance(one), luminance(two)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)
def test_contrast(theme):
    assert contrast(theme.ink, theme.surface) > 7  # WCAG AAA for text
    assert contrast(theme.muted, theme.surface) > 4.5
    for color in theme.series:
        assert contrast(color, theme.surface) > 3  # WCAG for graphics


def test_what_the_run_holds_is_escaped(run, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    for file in run.folder.iterdir():
        if file.is_dir():
            (folder / file.name).symlink_to(file)
        else:
            (folder / file.name).write_bytes(file.read_bytes())
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["model"]["name"] = "<script>alert(1)</script>"
    (folder / "manifest.json").write_text(json.dumps(manifest))
    page = render(Run.open(folder))
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


def test_failed_cells_are_shown_with_their_error(tmp_path):
    run = make_run(tmp_path, tolerance=0.0)
    page = render(run)
    assert "differs from the reference" in page
    assert "No cell was measured." in page
    assert 'class="failed"' in page


def test_a_run_of_one_cell(tmp_path):
    run = make_run(tmp_path, batch_size=[2], top_k=[1], stream_count=[1], capacity=["none"],
                   expert_cache_slots=[2], base=None, crosses=None)  # fmt: skip
    names = {figure.name for figure in report_figures(run)}
    assert names == {"distribution", "load", "routing", "floor"}
    assert "The median cell takes" in " ".join(findings(run))


def test_written_as_html(run, tmp_path):
    out = write_report(run.folder, tmp_path / "new" / "report.html")
    assert out.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert out.stat().st_size < 5_000_000


def test_unknown_ending_and_no_run(run, tmp_path):
    with pytest.raises(InputError, match="a report is"):
        write_report(run.folder, tmp_path / "report.docx")
    with pytest.raises(RunError, match="no run here"):
        write_report(tmp_path, tmp_path / "report.html")


def test_pdf_without_a_browser(run, tmp_path, monkeypatch):
    monkeypatch.setattr(pdf_module.shutil, "which", lambda _: None)
    with pytest.raises(DeviceUnavailable, match="Chromium"):
        write_report(run.folder, tmp_path / "report.pdf")
    assert not (tmp_path / "report.pdf").exists()
