"""The import contracts of pyproject.toml hold, and they do catch what breaks them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [Path(sys.executable).with_name("lint-imports"), "--no-cache", "--no-logo"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture
def copy(repository: Path, tmp_path: Path) -> Path:
    """The package and its contracts, to be spoiled."""
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(repository / "colibri_lab", tmp_path / "colibri_lab", ignore=ignore)
    shutil.copy(repository / "pyproject.toml", tmp_path)
    return tmp_path


def test_contracts_hold(repository: Path) -> None:
    result = lint_imports(repository)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("module", "line", "complaint"),
    [
        ("config.py", "from .reference import route", "config is not allowed to import"),
        ("formats/__init__.py", "from ..models import load_model", "formats is not allowed"),
        ("reference/norm.py", "import pandas", "reference.norm -> pandas"),
        ("models/extra.py", "import matplotlib", "models.extra -> matplotlib"),
        ("models/extra.py", "import pycuda", "models.extra -> pycuda"),
        ("utils.py", "", "not listed as layers"),
    ],
)
def test_contracts_catch(copy: Path, module: str, line: str, complaint: str) -> None:
    path = copy / "colibri_lab" / module
    with path.open("a") as file:
        file.write(f"\n{line}\n")
    result = lint_imports(copy)
    assert result.returncode == 1
    assert complaint in result.stdout
