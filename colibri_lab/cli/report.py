"""Make a self-contained report: of a run folder, of a routing trace, or of a notebook with
parameters.

An output that ends in .pdf is printed by Chromium, where one is installed."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..errors import InputError
from .output import note, print_json

TRACE_NOTEBOOK = "04r_expert_cache_report.ipynb"
EXAMPLE = """Examples:
  colibri-lab report out/run -o out/report.html
  colibri-lab report gptoss.route.csv -p budget_share=0.25 -o out/cache.html
  colibri-lab report notebooks/02_sweep.ipynb -p repeats=20 -o sweep.html"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", type=Path, metavar="RUN|TRACE|NOTEBOOK")
    parser.add_argument("-p", "--parameter", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("-o", "--out", type=Path, metavar="FILE", help="default: beside the source")
    parser.add_argument("--json", action="store_true", help="one JSON document")


def run(options: argparse.Namespace) -> None:
    parameters = dict(map(parse_parameter, options.parameter))
    notebook = _notebook(options.source, parameters)
    if parameters and notebook is None:
        raise InputError(
            "parameters are for notebooks", expected="a .ipynb file", found=str(options.source)
        )
    out = options.out or _default(options.source)
    if notebook is not None:
        from ..viz.notebook import report_notebook

        report_notebook(notebook, out, parameters)
    else:
        from ..viz.report import write_report

        write_report(options.source, out)
    if options.json:
        print_json({"report": str(out), "bytes": out.stat().st_size})
    else:
        note(f"{out}: {out.stat().st_size / 2**20:.1f} MiB")


def _default(source: Path) -> Path:
    return source / "report.html" if source.is_dir() else source.with_suffix(".html")


def _notebook(source: Path, parameters: dict[str, object]) -> Path | None:
    """The notebook that makes the report: itself, that of traces for a trace, none for a run."""
    if source.suffix == ".ipynb" or not source.is_file():
        return source if source.suffix == ".ipynb" else None
    from ..cache import batches
    from ..traces import import_trace
    from .lab import notebooks
    from .replaying import STREAM_FROM, is_long

    if is_long(source):
        raise InputError(
            "the trace is too long for a report",
            path=source,
            expected=f"under {STREAM_FROM:,} assignments",
            hint="trace replay reads it in parts",
        )
    batches(import_trace(source))  # says what is wrong with it before a notebook is started
    parameters["trace_file"] = str(source.resolve())
    return notebooks() / TRACE_NOTEBOOK


def parse_parameter(text: str) -> tuple[str, object]:
    """``name=value``; the value is a Python literal where it reads as one, else a string."""
    import ast

    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise InputError("a parameter is name=value", expected="name=value", found=text)
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value
