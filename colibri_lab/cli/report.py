"""Make a self-contained report: of a run folder, or of a notebook executed with parameters.

An output that ends in .pdf is printed by Chromium, where one is installed."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..errors import InputError
from .output import note, print_json

EXAMPLE = """Examples:
  colibri-lab report out/run -o out/report.html
  colibri-lab report notebooks/02_sweep.ipynb -p repeats=20 -o sweep.html"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", type=Path, metavar="RUN|NOTEBOOK")
    parser.add_argument("-p", "--parameter", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("-o", "--out", type=Path, metavar="FILE", help="default: beside the source")
    parser.add_argument("--json", action="store_true", help="one JSON document")


def run(options: argparse.Namespace) -> None:
    is_notebook = options.source.suffix == ".ipynb"
    if options.parameter and not is_notebook:
        raise InputError(
            "parameters are for notebooks", expected="a .ipynb file", found=str(options.source)
        )
    out = options.out or _default(options.source, is_notebook)
    if is_notebook:
        from ..viz.notebook import report_notebook

        report_notebook(options.source, out, dict(map(parse_parameter, options.parameter)))
    else:
        from ..viz.report import write_report

        write_report(options.source, out)
    if options.json:
        print_json({"report": str(out), "bytes": out.stat().st_size})
    else:
        note(f"{out}: {out.stat().st_size / 2**20:.1f} MiB")


def _default(source: Path, is_notebook: bool) -> Path:
    return source.with_suffix(".html") if is_notebook else source / "report.html"


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
