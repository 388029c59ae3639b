"""Headers that come with the CUDA toolkit: results against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.simt.grids import Module, source


@pytest.fixture(scope="module")
def module():
    made = Module(source("libraries.cu"))
    yield made
    made.close()


def test_collectives_of_a_block(module):
    v = np.random.default_rng(0).integers(-50, 50, 96).astype(np.int32)
    out = np.zeros((96, 6), np.int32)
    module.run("_Z11collectivesILi96EEvPKiPi", 1, 96, v, out)
    sums = np.cumsum(v)
    first = np.arange(96) == 0
    eights = np.where(np.arange(96) % 8 == 0, np.repeat(v.reshape(12, 8).sum(1), 8), 0)
    expected = [
        first * v.sum(), first * v.max(), sums - v, np.full(96, v.sum()),
        np.minimum.accumulate(v), eights,
    ]  # fmt: skip
    np.testing.assert_array_equal(out, np.stack(expected, 1))


def test_copies_to_shared_memory(module):
    x = np.arange(128, dtype=np.float32).reshape(32, 4)
    out = np.zeros(32, np.float32)
    module.run("copies", 1, 32, x, out)
    np.testing.assert_array_equal(out, x[::-1, 0] + x[:, 3])


def test_complex_numbers(module):
    a, b = np.random.default_rng(1).standard_normal((2, 32, 2)) @ [1, 1j]
    out = np.zeros(32, np.complex64)
    module.run("complex", 1, 32, a.astype(np.complex64), b.astype(np.complex64), out)
    np.testing.assert_allclose(out, a * b + np.conj(a / b), rtol=1e-5)


@pytest.mark.parametrize("workers", [1, 3])
def test_atomic_references(module, workers):
    count, total, turn = np.zeros(1, np.int32), np.zeros(1, np.float32), np.zeros(1, np.int32)
    module.run("references", 6, 32, count, total, turn, workers=workers)
    assert (count[0], total[0], turn[0]) == (192, 96, 192)
