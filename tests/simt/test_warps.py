"""Warp intrinsics: lanes meet by mask, in converged and in diverged code."""

from __future__ import annotations

import numpy as np
import pytest

from tests.simt.grids import Module, source


@pytest.fixture(scope="module")
def module():
    made = Module(source("warps.cu"))
    yield made
    made.close()


def _shuffled(v, arg, width):
    """What CUDA's guide says each lane reads, lane by lane."""
    out = np.zeros((4, len(v)), v.dtype)
    for t in range(len(v)):
        base, lane = t - t % 32, t % 32
        start, place = lane - lane % width, lane % width
        up = lane - arg if place - arg >= 0 else lane
        down = lane + arg if place + arg < width else lane
        xor = lane ^ arg
        if xor >= start + width:
            xor = lane
        out[:, t] = v[[base + start + arg % width, base + up, base + down, base + xor]]
    return out


@pytest.mark.parametrize("width", [32, 16, 4])
@pytest.mark.parametrize("arg", [0, 1, 3, 9])
@pytest.mark.parametrize(
    ("kernel", "dtype"), [("shuffle_int", np.int32), ("shuffle_double", float)]
)
def test_shuffles(module, kernel, dtype, arg, width):
    v = (np.arange(64) * 7 % 61).astype(dtype)
    out = np.zeros((4, 64), dtype)
    module.run(kernel, 1, 64, v, out, np.int32(arg), np.int32(width))
    np.testing.assert_array_equal(out, _shuffled(v, arg, width))


@pytest.mark.parametrize("values", ["mixed", "same"])
def test_votes_matches_and_reductions(module, values):
    v = np.random.default_rng(3).integers(0, 8, 64).astype(np.int32)
    if values == "same":
        v[:] = 7
    out = np.zeros((64, 8), np.uint32)
    module.run("votes", 1, 64, v, out)
    for t in range(64):
        warp = v[t - t % 32 : t - t % 32 + 32]
        bits = lambda p: int(sum(1 << i for i in range(32) if p[i]))  # noqa: E731
        same = (warp == warp[0]).all()
        expected = [
            bits(warp & 1), (warp == 7).any(), (warp < 8).all(), bits(warp == v[t]),
            0xFFFFFFFF if same else 0, same, warp.sum(), warp.max(),
        ]  # fmt: skip
        np.testing.assert_array_equal(out[t], expected)


def test_two_halves_of_a_warp_in_different_code(module):
    out = np.zeros(32, np.int32)
    module.run("halves", 1, 32, out)
    np.testing.assert_array_equal(out, [120] * 16 + [31] * 16)


def test_lanes_meet_from_different_lines(module):
    out = np.zeros(32, np.int32)
    module.run("other_lines", 1, 32, out)
    np.testing.assert_array_equal(out, [5] * 32)


def test_activemask_names_those_of_the_same_branch(module):
    out = np.zeros(32, np.uint32)
    module.run("active", 1, 32, out)
    by_branch = [sum(1 << i for i in range(32) if i % 3 == r) for r in range(2)] + [0]
    np.testing.assert_array_equal(out, [by_branch[t % 3] for t in range(32)])


def test_atomics_aggregated_by_warp(module):
    counter, place = np.zeros(1, np.int32), np.full(300, -1, np.int32)
    module.run("aggregated", 3, 100, counter, place)
    assert counter[0] == 100
    np.testing.assert_array_equal(np.sort(place[::3]), np.arange(100))


def test_lanes_that_left_are_not_waited_for(module):
    out = np.zeros(20, np.int32)
    module.run("some_left", 1, 32, out)
    np.testing.assert_array_equal(out, [0xAAAAA] * 20)


def test_cooperative_groups(module):
    v = np.random.default_rng(5).integers(0, 9, 64).astype(np.int32)
    out = np.zeros((64, 8), np.int32)
    module.run("grouped", 1, 64, v, out)
    tiles = v.reshape(8, 8)
    sums = np.cumsum(tiles, 1)
    expected = np.zeros((64, 8), int)
    for t in range(64):
        tile, at = divmod(t, 8)
        warp = v[t - t % 32 : t - t % 32 + 32]
        odd = warp % 2 == 1
        expected[t] = [
            tiles[tile].sum(), warp.max(), tiles[tile, at ^ 3],
            sum(1 << i for i in range(8) if tiles[tile, i] > 3),
            sums[tile, at], sums[tile, at] - v[t], tile * 100 + at,
            odd.sum() * 100 + odd[: t % 32].sum() if v[t] % 2 else -1,
        ]  # fmt: skip
    np.testing.assert_array_equal(out, expected)


def test_lanes_in_step_by_volatile_alone(module):
    v = np.random.default_rng(6).integers(0, 100, 96).astype(np.int32)
    out = np.zeros(3, np.int32)
    module.run("in_step", 1, 96, v, out)
    sums = v.reshape(3, 32).sum(1)
    np.testing.assert_array_equal(out, [sums[0], sums[1], sums[1]])


def test_special_registers_by_inline_ptx(module):
    out = np.zeros((64, 2), np.uint32)
    module.run("registers", 1, 64, out)
    lane = np.arange(64) % 32
    np.testing.assert_array_equal(out, np.stack([lane, 2**lane - 1], 1))


def test_groups_of_any_kind(module):
    v = np.random.default_rng(8).integers(0, 100, 64).astype(np.int32)
    out = np.zeros(5, np.int32)
    module.run("any_group", 1, 64, v, out)
    np.testing.assert_array_equal(out, [*v.reshape(4, 16).sum(1), v.sum()])


def test_tiles_move_whole_structs(module):
    v = np.random.default_rng(9).standard_normal((32, 4))
    out = np.zeros((32, 4))
    module.run("wide_shuffle", 1, 32, v, out)
    np.testing.assert_array_equal(out, v[np.arange(32) ^ 5])
