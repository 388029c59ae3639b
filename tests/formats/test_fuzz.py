"""Mutated containers: every outcome is a correct read or a FormatError."""

import pytest

from tools.fuzz_containers import KINDS, run


@pytest.mark.parametrize("kind", KINDS)
def test_mutated_files(tmp_path, kind):
    counts = run(kind, cases=1500, seed=7, folder=tmp_path)
    assert counts["cases"] == 1500
    assert counts["refused"] > 300
    assert counts["read"] > 10
    assert counts["wrong"] == 0
