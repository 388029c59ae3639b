"""Every notebook runs from top to bottom."""

import ast
import importlib.util
import re

import nbformat
import pytest
from nbclient import NotebookClient

from colibri_lab.viz.notebook import inject, read_notebook

# What makes a notebook small enough for a test.
PARAMETERS = {
    "02_sweep": {
        "batch_size": [1, 2],
        "top_k": [1, 2],
        "capacity": ["none", "hard:1.0"],
        "repeats": 5,
    },
    "03_bring_your_own_model": {"num_tokens": 128},
    "04_expert_cache": {"num_tokens": 40},
    "04r_expert_cache_report": {"num_tokens": 40},
    "05_cuda_without_a_gpu": {"size": 64},
    "06_kernels": {"num_tokens": 20},
    "06b_streams": {"num_tokens": 8},
}
WRITES = {"02_sweep": "out", "03_bring_your_own_model": "folder"}
NEEDS = dict.fromkeys(("05_cuda_without_a_gpu", "06_kernels", "06b_streams"), "pycuda")
NAMES = (
    "00_start_here",
    "01_inside_a_moe_layer",
    "02_sweep",
    "03_bring_your_own_model",
    "04_expert_cache",
    "04r_expert_cache_report",
    "05_cuda_without_a_gpu",
    "06_kernels",
    "06b_streams",
)


def names(repository):
    return sorted(path.stem for path in (repository / "notebooks").glob("*.ipynb"))


def test_the_notebooks_are_here(repository):
    assert names(repository) == list(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_runs(repository, tmp_path, name):
    if name in NEEDS and importlib.util.find_spec(NEEDS[name]) is None:
        pytest.skip(f"{NEEDS[name]} is not installed, or could not be built: make {NEEDS[name]}")
    notebook = read_notebook(repository / "notebooks" / f"{name}.ipynb")
    parameters = PARAMETERS.get(name, {})
    if name in WRITES:
        parameters = {**parameters, WRITES[name]: str(tmp_path / "written")}
    inject(notebook, parameters)
    resources = {"metadata": {"path": repository / "notebooks"}}
    NotebookClient(notebook, timeout=240, kernel_name="python3", resources=resources).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert outputs
    assert not any(output.output_type == "error" for output in outputs)


def test_solutions_stay_folded(repository):
    """A blank line would end the HTML block, and the solutions would lie open in a page."""
    for path in (repository / "notebooks").glob("*.ipynb"):
        for cell in nbformat.read(path, as_version=4).cells:
            for folded in re.findall(r"<details>.*?</details>", cell.source, re.DOTALL):
                assert "\n\n" not in folded


def test_style(repository):
    """Committed clean, and no logic: no definition over three lines."""
    for path in (repository / "notebooks").glob("*.ipynb"):
        notebook = nbformat.read(path, as_version=4)
        assert notebook.cells[0].cell_type == "markdown"
        for cell in notebook.cells:
            if cell.cell_type == "code":
                assert not cell.outputs
                assert cell.execution_count is None
                for node in ast.walk(ast.parse(cell.source)):
                    if isinstance(node, ast.FunctionDef | ast.ClassDef):
                        assert node.end_lineno - node.lineno < 3
