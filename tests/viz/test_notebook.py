"""Notebooks with parameters: what runs, what is refused, what is kept."""

import nbformat
import pytest

from colibri_lab.errors import InputError, WorkFailed
from colibri_lab.viz.notebook import inject, known_parameters, report_notebook

v4 = nbformat.v4


def write(path, *cells):
    notebook = v4.new_notebook(cells=list(cells))
    nbformat.write(notebook, path)
    return path


def code(source, *tags):
    return v4.new_code_cell(source, metadata={"tags": list(tags)})


@pytest.fixture
def notebook(tmp_path):
    return write(
        tmp_path / "n.ipynb",
        v4.new_markdown_cell("# The <b>title</b>"),
        code("number = 2\nword = 'a'", "parameters"),
        code("print('result', number * 21, word)"),
        code("raise SystemError('a control')", "interactive"),
    )


def test_parameters_replace_the_defaults(notebook, tmp_path):
    out = report_notebook(notebook, tmp_path / "out.html", {"number": 3, "word": "</pre><script>"})
    page = out.read_text()
    assert "result 63 &lt;/pre&gt;&lt;script&gt;" in page
    assert "<script" not in page
    assert "a control" not in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "prefers-color-scheme: dark" in page


def test_executed_notebook_can_be_kept(notebook, tmp_path):
    out = report_notebook(notebook, tmp_path / "out.ipynb", {})
    kept = nbformat.read(out, as_version=4)
    assert kept.cells[2].outputs[0].text == "result 42 a\n"


def test_unknown_parameter_lists_the_known(notebook, tmp_path):
    with pytest.raises(InputError, match="no such parameter") as caught:
        report_notebook(notebook, tmp_path / "out.html", {"nummer": 1})
    assert caught.value.expected == "number, word"
    assert not (tmp_path / "out.html").exists()


def test_a_failed_cell_keeps_what_ran(tmp_path):
    source = write(tmp_path / "n.ipynb", code("print('before')"), code("1 / 0"), code("print(2)"))
    with pytest.raises(WorkFailed, match="a cell of the notebook failed") as caught:
        report_notebook(source, tmp_path / "out.html", {})
    assert caught.value.found == "ZeroDivisionError: division by zero"
    partial = nbformat.read(tmp_path / "out.partial.ipynb", as_version=4)
    assert partial.cells[0].outputs[0].text == "before\n"
    assert not (tmp_path / "out.html").exists()


def test_what_is_no_notebook(tmp_path):
    (tmp_path / "n.ipynb").write_text("{}")
    with pytest.raises(InputError, match="no notebook"):
        report_notebook(tmp_path / "n.ipynb", tmp_path / "out.html", {})
    with pytest.raises(InputError, match="no notebook"):
        report_notebook(tmp_path / "none.ipynb", tmp_path / "out.html", {})
    with pytest.raises(InputError, match="becomes"):
        report_notebook(tmp_path / "n.ipynb", tmp_path / "out.docx", {})


def test_the_injected_cell_comes_after_the_parameters():
    notebook = v4.new_notebook(cells=[code("a = 1", "parameters"), code("print(a)")])
    assert known_parameters(notebook) == {"a": 1}
    inject(notebook, {"a": [1, "x"]})
    assert [cell.source for cell in notebook.cells] == ["a = 1", "a = [1, 'x']", "print(a)"]
