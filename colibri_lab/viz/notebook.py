"""Executing a notebook with parameters, and keeping it as one self-contained page."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..atomic import atomic_writer
from ..errors import InputError, WorkFailed
from .pdf import html_to_pdf

SECONDS = 900  # a cell
PARAMETERS, INTERACTIVE = "parameters", "interactive"
STYLE = """<style>
pre { white-space: pre-wrap; overflow-wrap: anywhere; }
@media print { pre { font-size: 8pt; } }
</style>"""


def report_notebook(source: str | Path, out: str | Path, parameters: Mapping[str, Any]) -> Path:
    """Execute a notebook and write it as .html, .pdf or .ipynb, by the ending of `out`.

    parameters : values in place of those in the cell that is tagged `parameters`.
    The page holds its figures and no script, so that it opens with the network off; cells tagged
    `interactive`, whose controls would be dead there, are left out. Where a cell fails, what ran
    until then is kept beside `out` as .partial.ipynb.
    Raises InputError for an unknown parameter, WorkFailed where a cell fails.
    """
    source, out = Path(source), Path(out)
    if out.suffix not in (".html", ".pdf", ".ipynb"):
        raise InputError("a notebook becomes .html, .pdf or .ipynb", found=out.name)
    notebook = read_notebook(source)
    inject(notebook, parameters)
    notebook.cells = [cell for cell in notebook.cells if INTERACTIVE not in _tags(cell)]
    out.parent.mkdir(parents=True, exist_ok=True)
    execute(notebook, source.resolve().parent, out.with_suffix(".partial.ipynb"))
    if out.suffix == ".ipynb":
        _write(notebook, out)
    elif out.suffix == ".pdf":
        html_to_pdf(to_html(notebook), out)
    else:
        page = to_html(notebook).encode()
        with atomic_writer(out) as file:
            file.write(page)
    return out


def read_notebook(path: Path) -> Any:
    """A notebook of format 4; InputError where the file is none."""
    import nbformat

    try:
        return nbformat.read(path, as_version=4)
    except Exception as error:  # the library's kinds are many
        raise InputError(
            "this is no notebook", path=path, expected="a .ipynb file", found=str(error)[:200]
        ) from error


def known_parameters(notebook: Any) -> dict[str, int]:
    """Name -> line of what the cell tagged `parameters` assigns; {} without such a cell."""
    cell = _parameters_cell(notebook)
    if cell is None:
        return {}
    assigned = [node for node in ast.parse(cell.source).body if isinstance(node, ast.Assign)]
    targets = [(target, node.lineno) for node in assigned for target in node.targets]
    return {target.id: line for target, line in targets if isinstance(target, ast.Name)}


def inject(notebook: Any, parameters: Mapping[str, Any]) -> None:
    """Put a cell with the values after the parameters cell, as papermill does."""
    import nbformat

    if not parameters:
        return
    known = known_parameters(notebook)
    unknown = sorted(set(parameters) - set(known))
    if unknown:
        raise InputError(
            "the notebook has no such parameter",
            expected=", ".join(known) or "a notebook with a cell tagged parameters",
            found=", ".join(unknown),
        )
    lines = [f"{name} = {value!r}" for name, value in parameters.items()]
    cell = nbformat.v4.new_code_cell("\n".join(lines), metadata={"tags": ["injected-parameters"]})
    place = notebook.cells.index(_parameters_cell(notebook)) + 1
    notebook.cells.insert(place, cell)


def execute(notebook: Any, folder: Path, partial: Path) -> None:
    """Run every cell in `folder`; on failure keep what ran in `partial`."""
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    client = NotebookClient(
        notebook, timeout=SECONDS, kernel_name="python3", resources={"metadata": {"path": folder}}
    )
    try:
        client.execute()
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        _write(notebook, partial)
        raise WorkFailed(
            "a cell of the notebook failed",
            path=partial,
            found=_last_line(str(error)),
            hint="open the partial notebook: it has every output until there",
        ) from error
    except BaseException:
        _write(notebook, partial)
        raise


def to_html(notebook: Any) -> str:
    """The executed notebook as one page without scripts."""
    from nbconvert import HTMLExporter

    exporter = HTMLExporter(
        template_name="basic", sanitize_html=False, embed_images=True, exclude_input_prompt=True,
        exclude_output_prompt=True,
    )  # fmt: skip
    body, _ = exporter.from_notebook_node(notebook)
    title = next((cell.source.splitlines()[0].lstrip("# ") for cell in notebook.cells), "notebook")
    return PAGE.format(title=_escaped(title), style=_highlight_style() + STYLE, body=body)


def _highlight_style() -> str:
    """Colours of code, for light pages and dark ones."""
    from pygments.formatters import HtmlFormatter

    light = HtmlFormatter(style="default").get_style_defs(".highlight")
    dark = HtmlFormatter(style="github-dark").get_style_defs(".highlight")
    return f"<style>{light}\n@media (prefers-color-scheme: dark) {{ {dark} }}</style>"


def _parameters_cell(notebook: Any) -> Any:
    return next((cell for cell in notebook.cells if PARAMETERS in _tags(cell)), None)


def _tags(cell: Any) -> list[str]:
    return list(cell.get("metadata", {}).get("tags", []))


def _write(notebook: Any, path: Path) -> None:
    import nbformat

    nbformat.write(notebook, path)


def _last_line(text: str) -> str:
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)  # Jupyter colours it
    lines = [line for line in plain.splitlines() if line.strip()]
    return lines[-1] if lines else "no message"


def _escaped(text: str) -> str:
    import html

    return html.escape(text)


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>{title}</title>
<style>
:root {{ --surface: #fff; --ink: #1c2430; --line: #dfe4ea; --soft: #f5f7f9; }}
@media (prefers-color-scheme: dark) {{
  :root {{ --surface: #141a22; --ink: #e8edf3; --line: #2b3543; --soft: #1b232d; }}
}}
body {{ margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 58rem; background: var(--surface);
  color: var(--ink); font: 16px/1.55 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }}
h1 {{ line-height: 1.2; }} h2 {{ margin-top: 2.5rem; }}
.highlight {{ background: var(--soft); border: 1px solid var(--line); border-radius: 6px;
  padding: .1rem .8rem; overflow-x: auto; font-size: .85rem; }}
.output pre, .jp-RenderedText pre {{ font-size: .85rem; overflow-x: auto; }}
img {{ max-width: 100%; height: auto; }}
table {{ border-collapse: collapse; font-size: .85rem; }}
th, td {{ padding: .25rem .6rem; border-bottom: 1px solid var(--line); text-align: right; }}
details {{ margin: .5rem 0; }} .anchor-link {{ display: none; }}
</style>{style}</head>
<body>{body}</body></html>
"""
