"""What the documents tell a reader to type works, and their links lead somewhere."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from colibri_lab.cli.entry import build_parser

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "data/README.md"])
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(document: Path, language: str) -> list[str]:
    found = FENCE.findall(document.read_text(encoding="utf-8"))
    return [text for name, text in found if name == language]


def commands() -> list[list[str]]:
    """The arguments of every colibri-lab command that stands in a block of shell."""
    lines = [line for path in DOCUMENTS for text in blocks(path, "sh") for line in text.split("\n")]
    words = [shlex.split(line) for line in lines if "colibri-lab " in line]
    return [line[1:] for line in words if Path(line[0]).name == "colibri-lab"]


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
