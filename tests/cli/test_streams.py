"""What is printed where, when streams are closed, full, narrow or interrupted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from colibri_lab.cli import inspect as command
from colibri_lab.cli import main

ODD = b"not utf-8 \xff"


def colibri(*arguments: Any, redirect: str = "", **environment: str) -> Any:
    """The command in a shell, whose redirections may close or fill its streams."""
    line = f'exec "$0" -m colibri_lab "$@" {redirect}'
    return subprocess.run(
        ["bash", "-c", line, sys.executable, *arguments],
        capture_output=True, env={**os.environ, **environment}, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("encoding", ["ascii", "utf-8:strict", "utf-8:surrogateescape"])
def test_a_path_that_is_not_utf8_is_told_in_one_json_document(encoding: str) -> None:
    done = colibri("inspect", ODD, "--json", PYTHONIOENCODING=encoding)
    assert done.returncode == 2
    assert json.loads(done.stdout.decode("utf-8"))["error"]["path"] == os.fsdecode(ODD)
    done = colibri("inspect", ODD, PYTHONIOENCODING=encoding)
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr


def test_help_and_text_print_where_few_characters_can_be() -> None:
    done = colibri("sweep", "--help", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("options", [[], ["--json"]])
@pytest.mark.parametrize("redirect", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_closed_streams_are_no_error(repository: Path, redirect: str, options: list[str]) -> None:
    done = colibri("inspect", repository / "data/tiny-moe", *options, redirect=redirect)
    assert (done.returncode, done.stderr) == (0, b"")


def test_what_goes_to_a_closed_standard_error_does_not_go_to_standard_output() -> None:
    done = colibri("inspect", "/nowhere", redirect="2>&-")
    assert (done.returncode, done.stdout) == (2, b"")


@pytest.mark.parametrize("path", ["/nowhere", "data/tiny-moe"])
def test_a_full_standard_output_is_told_once(repository: Path, path: str) -> None:
    done = colibri("inspect", repository / path, "--json", redirect="> /dev/full")
    assert done.returncode == 1
    assert done.stderr.decode() == "error: [Errno 28] No space left on device\n"


def test_an_error_for_a_reader_that_has_gone_is_quiet() -> None:
    reading_end, writing_end = os.pipe()
    os.close(reading_end)
    arguments = [sys.executable, "-m", "colibri_lab", "inspect", "/nowhere", "--json"]
    done = subprocess.run(arguments, stdout=writing_end, stderr=subprocess.PIPE, check=False)
    os.close(writing_end)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [(KeyboardInterrupt(), 130, "Interrupted"), (KeyError("grid"), 1, "KeyError")],
    ids=["interrupted", "unforeseen"],
)
def test_whatever_ends_a_command_is_one_json_document(
    capsys: Any, monkeypatch: pytest.MonkeyPatch, error: BaseException, status: int, kind: str
) -> None:
    def fail(_: Any) -> None:
        raise error

    monkeypatch.setattr(command, "run", fail)
    assert main(["inspect", "x", "--json"]) == status
    assert json.loads(capsys.readouterr().out)["error"]["type"] == kind


SLOW_CONVERT = """
import sys, time
from colibri_lab.cli import main
from colibri_lab.models import Checkpoint

def slow(*_, **__):
    print("reading", flush=True)
    time.sleep(60)

Checkpoint.read_expert = slow
sys.exit(main(["convert", *sys.argv[1:]]))
"""


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)], ids=["sigterm", "ctrl-c"]
)
def test_a_stopped_conversion_leaves_no_draft(
    repository: Path, tmp_path: Path, number: int, status: int
) -> None:
    command = [sys.executable, "-c", SLOW_CONVERT, repository / "data/tiny-moe"]
    with subprocess.Popen(
        [*command, tmp_path / "tiny.cbi"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "reading\n"
        assert len(list(tmp_path.iterdir())) == 1  # the draft
        process.send_signal(number)
        _, told = process.communicate(timeout=30)
    assert (process.returncode, told) == (status, "stopped\n")
    assert list(tmp_path.iterdir()) == []


def test_a_command_leaves_the_handling_of_signals_as_it_was(capsys: Any) -> None:
    before = signal.getsignal(signal.SIGTERM)
    assert main(["inspect", "/nowhere"]) == 2
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(
    "arguments",
    [
        ["sweep", "--model", "data/tiny-moe", "--out", ""],
        ["sweep", "--model", "", "--dry-run"],
        ["convert", "data/tiny-moe", ""],
        ["report", "run", "-o", ""],
        ["trace", "make", "uniform", "-o="],
    ],
)
def test_an_empty_path_is_refused(
    capsys: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    assert "the path is empty" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_json_is_not_abbreviated(capsys: Any) -> None:
    assert main(["inspect", "x", "--js"]) == 2
    assert "--js" in capsys.readouterr().err
