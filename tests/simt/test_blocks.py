"""Blocks, barriers, shared memory, module variables: results against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.simt.grids import Module, source

I = np.int32  # noqa: E741


@pytest.fixture(scope="module")
def module():
    made = Module(source("blocks.cu"))
    yield made
    made.close()


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_tiled_product(module, workers):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 64, 64), dtype=np.float32)
    c = np.zeros_like(a)
    module.run("sgemm", (4, 4), (16, 16), a, b, c, I(64), workers=workers)
    np.testing.assert_allclose(c, a.astype(float) @ b, atol=1e-4)


@pytest.mark.parametrize("grid", [(1, 1, 1), (3, 2, 4), (7, 1, 1)])
@pytest.mark.parametrize("block", [(1, 1, 1), (5, 3, 2), (33, 1, 1), (32, 32, 1), (1, 1, 64)])
def test_every_thread_knows_its_place(module, grid, block):
    blocks, threads = int(np.prod(grid)), int(np.prod(block))
    out = np.zeros((blocks, threads), np.uint32)
    module.run("places", grid, block, out)
    expected = np.arange(blocks, dtype=np.uint32)[:, None] << 16 | np.arange(threads)
    np.testing.assert_array_equal(out, expected)


def test_dynamic_shared_memory(module):
    x = np.random.default_rng(1).standard_normal((50, 300), dtype=np.float32)
    out = np.zeros(50, np.float32)
    module.run("row_max", 50, 64, x, out, I(300), shared=256)
    np.testing.assert_array_equal(out, x.max(1))


def test_module_variables(module):
    module.variable("coefficients", np.float32)[:] = [1, 2, 3, 4]
    x = np.linspace(-1, 1, 32, dtype=np.float32)
    expected = ((4 * x + 3) * x + 2) * x + 1
    module.variable("counter", np.int32)[:] = 5
    module.run("polynomial", 1, 32, x)
    np.testing.assert_allclose(x, expected, rtol=1e-5)
    assert module.variable("counter", np.int32) == [7]
    assert module.variable("big", np.float64).shape == (1000,)
    assert module.variable("big", np.float64)[999] == 1.5
    assert module.globals["coefficients"].is_constant == 1
    assert module.globals["counter"].is_constant == 0


def test_threads_that_left_are_not_waited_for(module):
    out = np.full(100, -1, np.int32)
    module.run("early_exit", 1, 100, out, I(37))
    np.testing.assert_array_equal(out, np.where(np.arange(100) < 37, 37, -1))


@pytest.mark.parametrize("limit", [0, 40, 70])
def test_barriers_that_count(module, limit):
    out = np.zeros((70, 3), np.int32)
    module.run("barrier_votes", 1, 70, out, I(limit))
    np.testing.assert_array_equal(out, [[limit, limit == 70, limit > 0]] * 70)


def test_declarations_of_shared_memory(module):
    out = np.zeros(8, np.int32)
    module.run("shapes_of_shared", 1, 32, out)
    np.testing.assert_array_equal(out, [1, 2, 3, 4, 127, 9, 0, 48])


def test_recursion(module):
    out = np.zeros(64, np.int32)
    module.run("recursion", 1, 64, out, I(100))
    np.testing.assert_array_equal(out, 100 + np.arange(64))


def test_what_the_image_says_of_its_kernels(module):
    assert module.kernels["bounded"].max_threads == 128
    assert module.kernels["sgemm"].max_threads == 0
    assert module.kernels["sgemm"].static_shared_bytes == 2 * 16 * 16 * 4
    assert module.kernels["early_exit"].static_shared_bytes == 4
    assert module.kernels["places"].static_shared_bytes == 0
    module.run("nothing", 3, 5)
