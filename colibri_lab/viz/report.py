"""The report of a run: one HTML file that needs nothing beside it, and no network."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..atomic import atomic_writer
from ..errors import InputError
from ..experiments import Run
from .device import COLUMNS as DEVICE_COLUMNS
from .figures import ReportFigure, report_figures
from .findings import findings
from .pdf import html_to_pdf
from .select import AXES, NAMES, comparable, emulated, measured, timed
from .theme import DARK, LIGHT, data_uri, svg

if TYPE_CHECKING:
    import pandas as pd

TEMPLATE = Path(__file__).with_name("report.html.j2")
# Column, heading, format of the table of cells.
COLUMNS = (
    ("backend", "backend", "{}"),
    ("batch_size", "batch", "{}"),
    ("seq_len", "tokens a seq.", "{}"),
    ("top_k", "top-k", "{}"),
    ("stream_count", "streams", "{}"),
    ("capacity", "capacity", "{}"),
    ("expert_cache_slots", "slots", "{}"),
    ("latency_p50_ms", "p50 ms", "{:.3f}"),
    ("latency_p90_ms", "p90 ms", "{:.3f}"),
    ("latency_p99_ms", "p99 ms", "{:.3f}"),
    ("tokens_per_s", "tokens/s", "{:,.0f}"),
    ("roofline_floor_ms", "floor ms", "{:.3f}"),
    ("expert_miss_ratio", "miss ratio", "{:.3f}"),
    ("expert_loads_per_request", "loads", "{:.2f}"),
    ("dropped_fraction", "dropped", "{:.3f}"),
    ("moved_fraction", "moved", "{:.3f}"),
    ("capacity_rel_error", "policy error", "{:.3f}"),
    ("perplexity", "perplexity", "{:.2f}"),
    ("output_rel_error", "check error", "{:.1e}"),
)


@dataclass(frozen=True)
class Picture:
    """A figure as the page holds it: both looks as data URIs."""

    figure: ReportFigure
    light: str
    dark: str


def write_report(run: str | Path | Run, out: str | Path) -> Path:
    """Write the report of a run folder; the ending of `out` says .html or .pdf.

    Raises RunError where there is no run, InputError for another ending, DeviceUnavailable where a
    PDF is asked for and no browser is here to print it.
    """
    run = run if isinstance(run, Run) else Run.open(run)
    out = Path(out)
    if out.suffix not in (".html", ".pdf"):
        raise InputError("a report is .html or .pdf", expected=".html or .pdf", found=out.name)
    page = render(run)
    out.parent.mkdir(parents=True, exist_ok=True)
    if out.suffix == ".pdf":
        html_to_pdf(page, out)
    else:
        with atomic_writer(out) as file:
            file.write(page.encode())
    return out


def render(run: Run) -> str:
    """The report as a page."""
    import jinja2

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    manifest, frame = run.manifest, run.frame
    counted = emulated(measured(run))
    shown = frame.drop(frame.index[frame["cell_id"].isin(counted["cell_id"])])
    pictures = [_picture(figure) for figure in report_figures(run)]
    return template.render(
        manifest=manifest,
        status=run.status,
        findings=findings(run),
        pictures=[each for each in pictures if not each.figure.name.startswith("device")],
        device_pictures=[each for each in pictures if each.figure.name.startswith("device")],
        devices=_devices(counted),
        has_times=len(timed(comparable(run))) > 0 or counted.empty,
        facts=_facts(manifest, frame),
        axes=_axes(manifest),
        headings=[heading for _, heading, _ in COLUMNS],
        rows=[_row(cell) for _, cell in shown.iterrows()],
        device_headings=[heading for _, heading, _ in DEVICE_COLUMNS],
        failures=_failures(frame),
        warnings=manifest.get("warnings", []),
        unavailable=manifest.get("unavailable", {}),
        definitions=manifest.get("definitions", {}),
        provenance=_provenance(manifest, frame),
        synthetic=bool((manifest.get("inputs") or {}).get("synthetic")),
    )


def _picture(figure: ReportFigure) -> Picture:
    return Picture(figure, *(data_uri(svg(figure.draw, theme)) for theme in (LIGHT, DARK)))


def _facts(manifest: dict[str, Any], frame: pd.DataFrame) -> list[tuple[str, str]]:
    """What was set up, as term and description."""
    model, inputs = manifest["model"], manifest.get("inputs") or {}
    settings, environment = manifest["settings"], manifest["environment"]
    done = int((frame["status"] == "ok").sum())
    return [
        ("Model", f"{model['name']}: {model['num_moe_layers']} MoE layers, {model['num_experts']} "
                  f"experts, top-{model['top_k']}, hidden {model['hidden_size']}, intermediate "
                  f"{model['intermediate_size']}"),
        ("Machine", f"{environment['cpu'] or environment['architecture']}, "
                    f"{environment['usable_cores']} cores, {environment['blas']}, "
                    f"{settings['blas_threads']} BLAS thread(s)"),
        ("Design", f"{done} of {manifest['grid']['num_cells']} cells measured; "
                   f"{manifest['grid']['design']}"),
        ("Calls", f"{settings['repeats']} timed calls a cell after {settings['warmup']} for "
                  "warm-up; one call runs the routed experts of all MoE layers"),
        ("Inputs", str(inputs.get("how", "unknown"))),
        ("Check", "each cell's output was held against the float64 reference before a time was "
                  f"recorded; the largest relative error allowed is {settings['tolerance']:g}"),
    ]  # fmt: skip


def _axes(manifest: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Axis, its values, its base."""
    base = manifest["grid"].get("base") or {}
    return [
        (NAMES.get(axis, axis), ", ".join(map(str, values)), str(base.get(axis, "")))
        for axis, values in manifest["grid"]["axes"].items()
    ]


def _row(cell: pd.Series) -> list[str]:
    if cell["status"] != "ok":
        return [_text(cell[name], "{}") for name, *_ in COLUMNS[:7]] + ["failed"]
    return [_text(cell[name], form) for name, _, form in COLUMNS]


def _devices(counted: pd.DataFrame) -> list[tuple[str, list[list[str]]]]:
    """Each emulated device's name, and a row for each of its cells."""
    return [
        (str(name), [[_text(cell[column], form) for column, _, form in DEVICE_COLUMNS]
                     for _, cell in cells.iterrows()])
        for name, cells in counted.sort_values(list(AXES)).groupby("device", sort=True)
    ]  # fmt: skip


def _text(value: Any, form: str) -> str:
    import pandas as pd

    return "-" if pd.isna(value) else form.format(value)


def _failures(frame: pd.DataFrame) -> list[tuple[str, str]]:
    """Cell and error of those that failed."""
    failed = frame[frame["status"] != "ok"]
    return [(str(cell["cell_id"]), str(cell["error"])) for _, cell in failed.iterrows()]


def _provenance(manifest: dict[str, Any], frame: pd.DataFrame) -> list[tuple[str, str]]:
    environment, commit = manifest["environment"], manifest.get("commit")
    packages = ", ".join(
        f"{name} {version}" for name, version in environment["packages"].items() if version
    )
    changed = " with uncommitted changes" if commit and commit["dirty"] else ""
    return [
        ("Run", f"{manifest['run_id']}, started {manifest['created_utc']}"),
        ("Code", f"colibri_lab {manifest['colibri_version']}, "
                 + (f"commit {commit['hash'][:12]}{changed}" if commit else "no checkout")),
        ("Software", f"Python {environment['python']}, {packages}, {environment['os']}"),
        ("Processor", f"{environment['cpu'] or environment['architecture']}; "
                      f"{', '.join(environment['simd']) or 'SIMD unknown'}; "
                      + ", ".join(f"{k} {v}" for k, v in environment["caches"].items())),
        ("Device", _device(frame)),
        ("Model", f"fingerprint {manifest['model_fingerprint']}"),
        ("Seeds", ", ".join(f"{name} {seed}" for name, seed in manifest["seeds"].items())),
        ("Records", f"schema version {manifest['schema_version']}; records.jsonl and samples/ in "
                    "the run folder hold every figure's numbers"),
    ]  # fmt: skip


def _device(frame: pd.DataFrame) -> str:
    """What the cells ran on, and which of them on an emulated device."""
    devices = ", ".join(sorted(frame["device"].dropna().unique())) or "none"
    emulated = int(frame["emulated"].fillna(False).sum())
    return f"{devices}; " + (
        f"{emulated} of {len(frame)} cells ran on an emulated device"
        if emulated
        else "real, nothing was emulated"
    )
