"""A thousand launches of random shape, block and shared size: results against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.simt.grids import Module, source

LAUNCHES = 200  # of each kernel
I32 = np.int32


@pytest.fixture(scope="module")
def module():
    made = Module(source("random.cu"))
    yield made
    made.close()


def _block(rng, limit=1024):
    """Three random sides with at most `limit` threads together, often few."""
    limit = int(rng.choice([1, 7, 31, 32, 33, 100, 256, 1000, limit]))
    sides = [1, 1, 1]
    for axis in rng.permutation(3):
        rest = max(1, min(limit // int(np.prod(sides)), 64 if axis == 2 else 1024))
        sides[axis] = int(rng.integers(1, rest + 1))
    return tuple(sides)


def _values(rng, *shape):
    return rng.integers(-1000, 1000, shape, dtype=I32)


def _stride(module, rng):
    x = _values(rng, int(rng.integers(1, 5000)))
    out = np.zeros_like(x)
    grid = tuple(int(g) for g in rng.integers(1, 6, 3))
    return ("stride", grid, _block(rng), x, out, I32(x.size)), 0, out, x * 3 + 1


def _reduce(module, rng):
    x = _values(rng, int(rng.integers(1, 20)), int(rng.integers(1, 500)))
    out, block = np.zeros(len(x), I32), _block(rng)
    shared = 4 * int(np.prod(block)) + int(rng.choice([0, 4, 1000, 40_000]))
    return ("reduce", len(x), block, x, out, I32(x.shape[1])), shared, out, x.sum(1)


def _scan(module, rng):
    x = _values(rng, int(rng.integers(1, 9)), int(rng.integers(1, 1500)))
    out = np.zeros_like(x)
    block = int(rng.integers(1, 1025))
    return ("scan", len(x), block, x, out, I32(x.shape[1])), 0, out, np.cumsum(x, 1)


def _transpose(module, rng):
    x = _values(rng, *rng.integers(1, 90, 2))
    side = int(rng.integers(1, 33))
    block = (side, int(rng.integers(1, side + 1)))
    grid = (-(-x.shape[1] // side), -(-x.shape[0] // side))
    pitch, out = side + int(rng.integers(0, 4)), np.zeros(x.shape[::-1], I32)
    args = ("transpose", grid, block, x, out, I32(x.shape[0]), I32(x.shape[1]), I32(pitch))
    return args, 4 * side * pitch, out, x.T


def _histogram(module, rng):
    x = abs(_values(rng, int(rng.integers(1, 4000))))
    bins = int(rng.integers(1, 3000))
    out = np.zeros(bins, I32)
    args = ("histogram", int(rng.integers(1, 12)), int(rng.integers(1, 1025)), x, out)
    expected = np.bincount(x % bins, minlength=bins)
    return (*args, I32(x.size), I32(bins)), 4 * bins, out, expected


@pytest.mark.parametrize("make", [_stride, _reduce, _scan, _transpose, _histogram])
def test_random_launches(module, make):
    for seed in range(LAUNCHES):
        rng = np.random.default_rng(seed)
        args, shared, out, expected = make(module, rng)
        module.run(*args, shared=shared, workers=int(rng.integers(0, 5)))
        np.testing.assert_array_equal(out, expected, err_msg=f"seed {seed}: {args[:3]}")
