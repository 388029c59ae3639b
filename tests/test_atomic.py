"""Writing whole files: what must never be replaced."""

import os
import stat
from pathlib import Path

import pytest

from colibri_lab.atomic import atomic_writer
from colibri_lab.errors import InputError


def test_a_device_or_a_pipe_is_never_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(InputError, match="device or a pipe"), atomic_writer(pipe) as file:
        file.write(b"x")
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert list(tmp_path.iterdir()) == [pipe]


def test_a_symlink_is_written_through(tmp_path: Path) -> None:
    target, link, relative = tmp_path / "there" / "file", tmp_path / "link", tmp_path / "again"
    target.parent.mkdir()
    link.symlink_to(target)
    relative.symlink_to("link")
    for path, content in ((link, b"new"), (relative, b"newer")):  # the first makes the file
        with atomic_writer(path) as file:
            file.write(content)
        assert target.read_bytes() == path.read_bytes() == content
    assert (link.readlink(), relative.readlink()) == (target, Path("link"))
    with pytest.raises(KeyError), atomic_writer(link) as file:
        raise KeyError
    assert target.read_bytes() == b"newer"
    assert sorted(tmp_path.rglob("*")) == sorted([target.parent, target, link, relative])


def test_a_symlink_to_a_device_or_to_itself_is_refused(tmp_path: Path) -> None:
    device, loop = tmp_path / "device", tmp_path / "loop"
    device.symlink_to("/dev/null")
    loop.symlink_to(loop)
    for link, words in ((device, "a device"), (loop, "leads nowhere")):
        with pytest.raises(InputError, match=words) as caught, atomic_writer(link) as file:
            file.write(b"x")
        assert str(link) in str(caught.value)
        assert link.is_symlink()
