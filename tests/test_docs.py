"""What the documents tell a reader to type works, and their links lead somewhere."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from colibri_lab.cli.entry import build_parser, main
from colibri_lab.experiments.grid import AXES
from colibri_lab.experiments.records import COLUMNS

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "data/README.md"])
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(document: Path, language: str) -> list[str]:
    found = FENCE.findall(document.read_text(encoding="utf-8"))
    return [text for name, text in found if name == language]


# What takes a minute, does not end, or runs a whole notebook, which the notebooks' own tests do.
NOT_RUN = re.compile(r"lab$|sweep .*--preset quick --out|report .*\.ipynb|report .*\.parquet")
# The guide's sweeps are of a hundred calls a cell; a few show as well that the command works.
SHORTER = {"sweep": ["--repeats", "3"]}


def lines(path: Path) -> list[list[str]]:
    """The lines of a document's blocks of shell that are about this project's files."""
    text = [line for block in blocks(path, "sh") for line in block.split("\n")]
    words = [shlex.split(line, comments=True) for line in text]
    return [line for line in words if line and Path(line[0]).name in ("colibri-lab", "mkdir")]


def commands() -> list[list[str]]:
    """The arguments of every colibri-lab command that stands in a block of shell."""
    found = [line for path in DOCUMENTS for line in lines(path)]
    return [line[1:] for line in found if line[0] != "mkdir"]


def run_line(line: list[str]) -> int:
    """Do what a line says, in the current folder; its exit status."""
    if line[0] == "mkdir":
        return subprocess.run(line, check=False).returncode
    arguments = line[1:]
    if arguments[0] == "sweep" and "--resume" not in arguments:
        arguments = [*arguments, *SHORTER["sweep"]]
    return main(arguments)


def make_traces(folder: Path) -> None:
    """Small traces of the names and kinds that docs/trace-formats.md speaks of."""
    (folder / "usage.txt").write_text("0 0 5\n0 1 3\n1 0 4\n1 1 4\n")
    rows = [
        {"layer_idx": layer, "token_idx": token, "topk_ids": [token % 8, token % 8 + 8]}
        for token in range(6)
        for layer in range(2)
    ]
    (folder / "routes.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    routed = np.random.default_rng(0).integers(0, 4, (40, 2, 1)) * 2
    np.savez(folder / "routes.npz", first=np.concatenate([routed, routed + 1], axis=2))


@pytest.mark.parametrize(
    "document",
    [path for path in DOCUMENTS if lines(path)],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_commands_run(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("data", "notebooks"):
        (tmp_path / name).symlink_to(ROOT / name)
    make_traces(tmp_path)
    monkeypatch.chdir(tmp_path)
    run = [line for line in lines(document) if not NOT_RUN.match(shlex.join(line[1:]))]
    assert run
    for line in run:
        assert run_line(line) == 0, shlex.join(line)


@pytest.mark.parametrize(
    "line",
    ["mkdir no/such/folder", "colibri-lab inspect data/no-model", "colibri-lab infer --no-option"],
)
def test_a_broken_command_is_noticed(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_line(shlex.split(line)) != 0


@pytest.mark.parametrize("document", ["README.md", "docs/index.md"])
def test_python_runs(document: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").symlink_to(ROOT / "data")
    monkeypatch.chdir(tmp_path)
    code = blocks(ROOT / document, "python")
    names: dict[str, Any] = {}
    exec("\n".join(code), names)  # noqa: S102  the documents' own examples
    assert names["out"].logits.shape == (1, 5, 2048)


def test_commands_are_understood() -> None:
    assert {line[0] for line in commands()} >= {"convert", "infer", "inspect", "report", "sweep"}
    for line in commands():
        assert callable(build_parser().parse_args(line).run)


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {
        name
        for path in DOCUMENTS
        for name in re.findall(r"`make ([a-z]+)|^make ([a-z]+)", path.read_text(), re.MULTILINE)
    }
    assert {word for pair in named for word in pair if word} <= targets


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    targets = re.findall(r"\]\(([^)\s]+)\)", document.read_text(encoding="utf-8"))
    local = [target.split("#")[0] for target in targets if "://" not in target]
    missing = [name for name in local if name and not (document.parent / name).exists()]
    assert missing == []


def test_anchors_of_the_guide_are_its_headings() -> None:
    text = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    headings = {
        re.sub(r"[^\w -]", "", title).strip().lower().replace(" ", "-")
        for title in re.findall(r"^## (.*)$", text, re.MULTILINE)
    }
    assert set(re.findall(r"\]\(#([^)]+)\)", text)) == headings


def test_options_and_columns_have_the_names_that_are_agreed_on() -> None:
    subcommands = build_parser()._subparsers
    assert subcommands is not None
    parsers = subcommands._group_actions[0].choices
    assert isinstance(parsers, dict)
    for name in ("infer", "sweep"):
        options = parsers[name]._option_string_actions
        assert {"--expert-cache-size", "--streams", "--cache-policy", "--top-k"} <= set(options)
    assert {"expert_cache_slots", "stream_count"} <= set(COLUMNS) & set(AXES)
    for path in (ROOT / "colibri_lab/engine").rglob("*.py"):
        assert not re.search(r"\b(streams|slots): int\b", path.read_text()), path
