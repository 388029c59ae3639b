"""Declarations as people write them: what each name means in the end."""

from __future__ import annotations

import numpy as np
import pytest

from tests.simt.grids import Module, source


@pytest.fixture(scope="module")
def module():
    made = Module(source("declarations.cu"))
    yield made
    made.close()


def test_everything(module):
    out = np.zeros(13, np.float32)
    module.run("everything", 1, 32, out, shared=64)
    expected = [10, 6, 7, 8, 9, 10, 11, 12, 13, 10.5, 3 + 1 + 4 + 6, 2.5 + 2.5 + 1, 5]
    np.testing.assert_array_equal(out, expected)


def test_kernels_and_variables(module):
    assert module.kernels["bounded"].max_threads == 64
    out = np.zeros(1, np.int32)
    module.run("attribute_after_type", 1, 1, out)
    assert out[0] == 1
    module.run("bounded", 1, 48, out, np.int32(0), np.zeros(1))
    assert out[0] == 48
    constants = {n for n, v in module.globals.items() if v.is_constant}
    assert constants == {"config", "one", "several", "bytes"}
    assert set(module.globals) == constants | {
        "table", "where", "level", "fixed", "chosen", "others",
    }  # fmt: skip
    np.testing.assert_array_equal(module.variable("several", np.int32), [1, 2, 3])


def test_sizes_of_shared_memory(module):
    assert module.kernels["bounded"].static_shared_bytes == 0
    assert module.kernels["everything"].static_shared_bytes <= 64 + 3 * 16 + 4 * 32 + 100


def test_pointers_to_volatile(module):
    out, pairs = np.array([1, 2, 0], np.int32), np.array([0, 0, 0, 4], np.float32)
    module.run("volatiles", 1, 1, out, pairs)
    np.testing.assert_array_equal(out, [9, 3, 6])
    np.testing.assert_array_equal(pairs, [5, 0, 0, 4])


def test_lanes_in_step_with_a_class_of_their_own_operators(module):
    x, out = np.arange(64, dtype=np.float32), np.zeros(1, np.float32)
    module.run("sum_numbers", 1, 64, x, out)
    assert out[0] == x.sum()


def test_pointers_to_functions(module):
    out = np.zeros(1, np.int32)
    module.run("by_pointer", 1, 1, out)
    assert out[0] == 29
