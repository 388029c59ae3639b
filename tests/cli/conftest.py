"""A tiny checkpoint for the commands."""

import pytest

from tests.cli.support import write_tokenizer
from tests.support import write_checkpoint


@pytest.fixture
def folder(tmp_path):
    """A tiny checkpoint with a tokenizer of single characters."""
    path = tmp_path / "model"
    write_checkpoint(path)
    write_tokenizer(path)
    return path
