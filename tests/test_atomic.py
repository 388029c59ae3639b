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
