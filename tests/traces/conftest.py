"""Writing a sample where an importer can read it."""

from pathlib import Path

import pytest


@pytest.fixture
def write(tmp_path):
    def _write(content) -> Path:
        path = tmp_path / "sample"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return _write
