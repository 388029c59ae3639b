"""The project's own files agree with one another."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

TOP_LEVEL_FOLDERS = {".ci", "colibri_lab", "data", "docs", "notebooks", "tests", "tools"}
LOCKS = ["uv.lock", "requirements.lock"]


def normal(name: str) -> str:
    """A distribution's name as the packaging standards spell it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def requirements(lines: list[str]) -> dict[str, str]:
    """Name -> version specifier of plain requirements such as ``numpy>=2.0``."""
    found = (re.fullmatch(r"([\w.-]+)(?:\[[\w,]+\])?(.*)", line) for line in lines)
    return {normal(match[1]): match[2] for match in found if match}


@pytest.fixture(scope="module")
def pyproject(repository: Path) -> dict[str, Any]:
    return tomllib.loads((repository / "pyproject.toml").read_text())


@pytest.fixture(scope="module")
def locked(repository: Path) -> list[dict[str, Any]]:
    packages: list[dict[str, Any]] = tomllib.loads((repository / "uv.lock").read_text())["package"]
    return packages


def tracked(repository: Path) -> list[str]:
    """The files git knows, as paths from the root."""
    if shutil.which("git") is None or not (repository / ".git").exists():
        pytest.skip("not a git checkout")
    done = subprocess.run(
        ["git", "ls-files", "-z"], cwd=repository, capture_output=True, text=True, check=True
    )
    return done.stdout.split("\0")[:-1]


def test_conda_environment_matches(repository: Path, pyproject: dict[str, Any]) -> None:
    project = pyproject["project"]
    extras = project["optional-dependencies"]
    lines = [line for name in ("fast", "report", "lab") for line in extras[name]]
    wanted = requirements(project["dependencies"] + lines)
    del wanted[normal(project["name"])]
    wanted["python"] = project["requires-python"]
    environment = yaml.safe_load((repository / "environment.yml").read_text())
    named = [line for line in environment["dependencies"] if isinstance(line, str)]
    found = requirements(named)
    assert found.pop("pip") == ""
    assert found == wanted
    assert {"pip": ["-e ."]} in environment["dependencies"]


def reachable(packages: list[dict[str, Any]], extras: list[str], groups: list[str]) -> set[str]:
    """``name==version`` of all that the project needs with these extras and groups."""
    by_name: dict[str, list[dict[str, Any]]] = {}
    for package in packages:
        by_name.setdefault(package["name"], []).append(package)
    (root,) = by_name["colibri-lab"]
    start = [need for group in groups for need in root["dev-dependencies"][group]]
    todo = [("colibri-lab", extra) for extra in ["", *extras]]
    todo += [(need["name"], extra) for need in start for extra in ["", *need.get("extra", [])]]
    seen: set[tuple[str, str]] = set()
    while todo:
        name, extra = item = todo.pop()
        if item in seen:
            continue
        seen.add(item)
        for package in by_name[name]:
            optional = package.get("optional-dependencies", {})
            needs = optional.get(extra, []) if extra else package.get("dependencies", [])
            for need in needs:
                todo += [(need["name"], wanted) for wanted in ["", *need.get("extra", [])]]
    names = {name for name, _ in seen} - {"colibri-lab"}
    return {f"{name}=={package['version']}" for name in names for package in by_name[name]}


def test_requirements_lock_is_in_step(repository: Path, locked: list[dict[str, Any]]) -> None:
    text = (repository / "requirements.lock").read_text()
    pins = set(re.findall(r"^([\w.-]+==[^\s;]+)", text, re.MULTILINE))
    assert pins == reachable(locked, ["lab"], ["test"]), "run: make lock"


def test_requirements_lock_hashes_are_the_locked_ones(
    repository: Path, locked: list[dict[str, Any]]
) -> None:
    files = [
        file
        for package in locked
        for file in [*package.get("wheels", []), *filter(None, [package.get("sdist")])]
    ]
    known = {file["hash"] for file in files}
    text = (repository / "requirements.lock").read_text()
    hashes = re.findall(r"--hash=(\S+)", text)
    assert len(hashes) > len(re.findall(r"==", text)) > 50
    assert set(hashes) <= known


def test_pyproject_is_what_was_locked(
    pyproject: dict[str, Any], locked: list[dict[str, Any]]
) -> None:
    (root,) = (package for package in locked if package["name"] == "colibri-lab")
    metadata = root["metadata"]
    project = pyproject["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    wanted = {item for lines in lists for item in requirements(lines).items()}
    wanted.discard(("colibri-lab", ""))  # an extra inside another is locked as its parts
    found = {(need["name"], need.get("specifier", "")) for need in metadata["requires-dist"]}
    assert found == wanted, "run: make lock"
    for group, lines in pyproject["dependency-groups"].items():
        needs = metadata["requires-dev"][group]
        assert {need["name"]: need["specifier"] for need in needs} == requirements(lines)


@pytest.mark.parametrize("name", LOCKS)
def test_locks_name_no_local_path_and_no_mirror(repository: Path, name: str) -> None:
    text = (repository / name).read_text()
    hosts = set(re.findall(r"https?://([^/\"\s]+)", text))
    # The public index and its file store alone: a mirror would be a third, or of another domain.
    assert len(hosts) <= 2
    assert all(host.endswith(".org") for host in hosts)
    assert not re.findall(r"file:|find-links|index-url|\"/|path = ", text)
    assert re.findall(r"editable = \"(.*)\"", text) in ([], ["."])


def test_folders_are_the_agreed_ones(repository: Path) -> None:
    folders = {path.split("/")[0] for path in tracked(repository) if "/" in path}
    assert folders <= TOP_LEVEL_FOLDERS


def test_notebooks_have_no_outputs(repository: Path) -> None:
    dirty = []
    for path in tracked(repository):
        if path.endswith(".ipynb"):
            cells = json.loads((repository / path).read_text())["cells"]
            dirty += [path for cell in cells if cell.get("outputs") or cell.get("execution_count")]
    assert dirty == []


def test_every_error_is_raised_or_caught_somewhere(repository: Path) -> None:
    package = repository / "colibri_lab"
    errors = (package / "errors.py").read_text()
    named = re.findall(r"^class (\w+)", errors, re.MULTILINE)
    elsewhere = [path for path in package.rglob("*.py") if path.name != "errors.py"]
    source = "\n".join(path.read_text() for path in elsewhere)
    assert named
    assert [name for name in named if not re.search(rf"\b{name}\b", source)] == []
