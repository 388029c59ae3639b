"""Correct kernels of many kinds: their results are right, and nothing is found in them."""

import numpy as np
import pytest

from colibri_lab import simt

N = 1024
rng = np.random.default_rng(3)
A, B = (rng.standard_normal(N).astype(np.float32) for _ in range(2))
SQUARE, SQUARE2 = (rng.standard_normal((32, 32)).astype(np.float32) for _ in range(2))
KEYS = rng.integers(0, 16, N).astype(np.int32)
BYTES = rng.integers(0, 256, N).astype(np.uint8)
n = np.int32(N)
ZERO = np.zeros(1, np.float32)
PRODUCT = SQUARE @ SQUARE2


def softmax(x):
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def escape_times():
    i = np.arange(N)
    cx, cy = -2.0 + 3.0 * (i % 32) / 32, -1.0 + 2.0 * (i // 32) / 32
    z, c, steps = np.zeros(N, complex), cx + 1j * cy, np.zeros(N, np.int32)
    for _ in range(50):
        inside = np.abs(z) ** 2 < 4
        z[inside] = z[inside] ** 2 + c[inside]
        steps += inside
    return steps


class Out:
    """A buffer that the kernel fills: `expected` is what it must hold."""

    def __init__(self, expected, start=None, close=1e-4):
        self.expected = np.asarray(expected)
        self.start, self.close = start, close


def prefix(x):
    return np.cumsum(x.astype(np.float64)).astype(np.float32)


def neighbours(x):
    return x + np.pad(x, 1)[:-2] + np.pad(x, 1)[2:]


# Kernel, arguments, shape. A line each: they are read side by side.
# ruff: noqa: E501
CASES = [
    ("add", (A, B, Out(A + B), n), {"grid": 9, "block": 128}),
    ("scale4", (A, Out(2 * A), n), {"grid": 2, "block": 128}),
    ("grid_stride", (A, Out(A + 1), n), {"grid": 2, "block": 96}),
    ("in_place", (Out(A * A, A), n), {"grid": 4, "block": 256}),
    ("reduce_shared", (A, Out(A.sum()), n), {"block": 128, "shared": 512}),
    ("reduce_last_warp", (A, Out(A.sum()), n), {"block": 256}),
    ("reduce_shuffle", (A, Out(A.sum()), n), {"block": 256}),
    ("reduce_atomic", (A, Out(A.sum(), ZERO), n), {"grid": 4, "block": 256}),
    ("reduce_last_block", (A, Out(A.reshape(8, 128).sum(1)), Out(A.sum()), n), {"grid": 8, "block": 128}),
    ("scan_two_buffers", (A[:128], Out(prefix(A[:128]))), {"block": 128}),
    ("scan_blelloch", (A[:128], Out(prefix(A[:128]))), {"block": 64}),
    ("scan_warp", (A[:32], Out(prefix(A[:32]))), {}),
    ("transpose_naive", (A, Out(A.reshape(32, 32).T), np.int32(32)), {"block": (32, 32)}),
    ("transpose_padded", (A, Out(A.reshape(32, 32).T), np.int32(32)), {"block": (32, 8)}),
    ("histogram_global", (KEYS, Out(np.bincount(KEYS, minlength=16), np.zeros(16, np.int32)), n), {"grid": 4, "block": 256}),
    ("histogram_shared", (KEYS, Out(np.bincount(KEYS, minlength=16), np.zeros(16, np.int32)), n), {"grid": 4, "block": 256}),
    ("softmax", (A, Out(softmax(A.reshape(8, 128))), np.int32(128)), {"grid": 8, "block": 64}),
    ("matvec_warp", (A, B[:32], Out(A.reshape(32, 32) @ B[:32]), np.int32(32), np.int32(32)), {"grid": 8, "block": 128}),
    ("sgemm_naive", (SQUARE, SQUARE2, Out(PRODUCT), np.int32(32)), {"grid": (2, 2), "block": (16, 16)}),
    ("sgemm_tiled", (SQUARE, SQUARE2, Out(PRODUCT), np.int32(32)), {"grid": (2, 2), "block": (16, 16)}),
    ("sgemm_two_buffers", (SQUARE, SQUARE2, Out(PRODUCT), np.int32(32)), {"grid": (2, 2), "block": (16, 16)}),
    ("sgemm_registers", (SQUARE, SQUARE2, Out(PRODUCT), np.int32(32)), {"block": 64}),
    ("stencil", (A, Out(neighbours(A)), n), {"grid": 8, "block": 128}),
    ("filter", (A, Out((neighbours(A) + A) / 4), n), {"grid": 8, "block": 128}),
    ("bitonic_sort", (Out(np.sort(A[:128]), A[:128]),), {"block": 128}),
    ("compact", (A, Out(None), Out((A > 0).sum(), np.zeros(1, np.int32)), n), {"grid": 4, "block": 256}),
    ("compact_by_warp", (A, Out(None), Out((A > 0).sum(), np.zeros(1, np.int32)), n), {"grid": 4, "block": 256}),
    ("locked_sum", (A, Out(A[::32].sum(), ZERO), np.zeros(1, np.int32), n), {"grid": 4, "block": 256}),
    ("hand_over", (np.zeros(6, np.int32), np.zeros(6, np.int32), np.zeros(6, np.int32), Out(6, np.zeros(1, np.int32))), {"grid": 6}),
    ("greatest", (A, Out(np.abs(A).max(), ZERO), n), {"grid": 4, "block": 256}),
    ("escape_time", (Out(escape_times(), np.zeros(N, np.int32)), np.int32(32)), {"grid": 4, "block": 256}),
    ("byte_each", (BYTES, Out(255 - BYTES, np.zeros(N, np.uint8)), n), {"grid": 4, "block": 256}),
    ("bytes_in_shared", (BYTES, Out(BYTES.reshape(8, 128)[:, ::-1], np.zeros(N, np.uint8))), {"grid": 8, "block": 128}),
    ("vote_count", (A[:128], Out((A[:128] > 0).sum() + 1000 * (A[:128] > 2).any(), np.zeros(1, np.int32))), {"block": 128}),
    ("tile_group", (A[:128], Out(8 * A[:128].reshape(16, 8).sum(1))), {"block": 128}),
    ("halves_of_a_warp", (A[:32], Out(np.r_[A[15::-1], 2 * A[31:15:-1]])), {}),
    ("meet_from_two_sides", (A[:32], Out(np.r_[A[16:32] + 1, A[:16]])), {}),
    ("sum_of_structs", (A[:384], Out(A[:384].reshape(128, 3).sum(1)), np.int32(128)), {"grid": 2, "block": 64}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args", "shape"), CASES, ids=[case[0] for case in CASES])
def test_nothing_is_found(device, observed, name, args, shape):
    module = device.load(observed("correct.cu"))
    with simt.observe() as seen:
        held = [_put(device, arg) for arg in args]
        device.launch(module, name, *held, **shape)
        for address, arg in zip(held, args, strict=True):
            if isinstance(arg, Out) and arg.expected.dtype != object:
                _compare(device, address, arg)
    assert not seen.findings, str(seen)
    assert seen.kernel(name).sites, "it was observed"


def _put(device, arg):
    if isinstance(arg, Out):
        return device.empty(8 * N) if arg.start is None else device.put(arg.start)
    return device.put(arg) if arg.ndim else arg


def _compare(device, address, arg):
    dtype = np.float32 if arg.start is None else arg.start.dtype
    got = device.get(address, arg.expected.shape, dtype)
    np.testing.assert_allclose(got, arg.expected, rtol=arg.close, atol=arg.close)


def test_the_same_value_from_many_threads_is_no_error(device, observed):
    """It is shown, and marked as what it is."""
    module = device.load(observed("correct.cu"))
    with simt.observe() as seen:
        args = device.put(A), device.put(np.zeros(1, np.int32)), n
        device.launch(module, "all_raise_one_flag", *args, grid=4, block=256)
    assert not seen.errors
    assert all("same value" in one.detail for one in seen.findings)
    seen.check()
