"""Without the extras, a command that needs one says so in words."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import sys
sys.modules[{package!r}] = None  # as if it were not installed
from colibri_lab.cli import main
sys.exit(main({arguments!r}))
"""


def run_without(package: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    code = CODE.format(package=package, arguments=list(arguments))
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


SWEEP = ["sweep", "--model", "data/tiny-moe", "--repeats", "1", "--inputs", "random", "--out"]


@pytest.mark.parametrize(
    ("package", "arguments"),
    [("matplotlib", ["report"]), ("pandas", SWEEP)],
    ids=["report", "sweep"],
)
def test_the_package_and_the_extra_are_named(
    package: str, arguments: list[str], repository: Path, tmp_path: Path
) -> None:
    model = str(repository / "data/tiny-moe")
    words = [model if word == "data/tiny-moe" else word for word in arguments]
    done = run_without(package, *words, str(tmp_path / "run"), "--json")
    error = json.loads(done.stdout)["error"]
    assert done.returncode == 1
    assert error["message"].startswith(package)
    assert "colibri-lab[report]" in error["hint"]
    assert "Traceback" not in done.stderr


def test_a_bug_is_not_taken_for_a_missing_package(tmp_path: Path) -> None:
    done = run_without("colibri_lab.viz.report", "report", str(tmp_path))
    assert "Traceback" in done.stderr
