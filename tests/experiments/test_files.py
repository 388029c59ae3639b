"""Files: whole or not at all, one writer, and errors that say what to do.

Tests may run as root, whom permissions do not stop: so no chmod here.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from colibri_lab.errors import RunError
from colibri_lab.experiments.files import append_line, locked, make_folder, write_whole


def fail(code: int) -> Any:
    def failing(*arguments: Any, **options: Any) -> Any:
        raise OSError(code, os.strerror(code))

    return failing


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    write_whole(tmp_path / "a", b"one")
    write_whole(tmp_path / "a", b"two")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == b"two"


def test_a_failed_write_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_whole(tmp_path / "a", b"one")
    monkeypatch.setattr(os, "fsync", fail(errno.ENOSPC))
    with pytest.raises(RunError, match="free some space"):
        write_whole(tmp_path / "a", b"two")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == b"one"


def test_a_full_disk_leaves_no_part_of_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lines"
    append_line(path, "first")
    write = os.write

    def half_then_full(handle: int, data: bytes) -> int:
        if len(data) <= 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(handle, data[: len(data) - 3])

    monkeypatch.setattr(os, "write", half_then_full)
    with pytest.raises(RunError, match="the disk is full"):
        append_line(path, "second")
    assert path.read_text() == "first\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_device_is_a_run_error(tmp_path: Path) -> None:
    (tmp_path / "lines").symlink_to("/dev/full")
    with pytest.raises(RunError, match="the disk is full"):
        append_line(tmp_path / "lines", "first")


@pytest.mark.parametrize(
    ("code", "advice"), [(errno.EROFS, "read-only"), (errno.EACCES, "may not write")]
)
def test_a_folder_that_cannot_be_written_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, advice: str
) -> None:
    monkeypatch.setattr(Path, "mkdir", fail(code))
    with pytest.raises(RunError, match=advice) as caught:
        make_folder(tmp_path / "run")
    assert caught.value.path == str(tmp_path / "run")


def test_a_path_below_a_file_is_a_run_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="a part of the path is a file"):
        make_folder(tmp_path / "file" / "run")
    with pytest.raises(RunError, match="a file stands where"):
        make_folder(tmp_path / "file")


def test_a_second_writer_is_refused_and_told_of_the_first(tmp_path: Path) -> None:
    with (
        locked(tmp_path),
        pytest.raises(RunError, match=f"process {os.getpid()}"),
        locked(tmp_path),
    ):
        pass
    with locked(tmp_path):  # the lock is free again
        pass
