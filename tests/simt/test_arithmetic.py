"""Atomics, intrinsics, half, bfloat16 and matrix fragments: results against NumPy."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from tests.simt.grids import Module, source


@pytest.fixture(scope="module")
def module():
    made = Module(source("arithmetic.cu"))
    yield made
    made.close()


@pytest.mark.parametrize("workers", [1, 4])
def test_atomics_of_all_kinds(module, workers):
    n = 40 * 64
    t = np.arange(n, dtype=np.int64)
    i, u = np.zeros(4, np.int32), np.array([0, 0xFFFFFFFF, 0, 0, 0], np.uint32)
    ull, f, d = np.zeros(2, np.uint64), np.zeros(1, np.float32), np.zeros(1)
    module.run("atomics", 40, 64, i, u, ull, f, d, workers=workers)
    np.testing.assert_array_equal(i, [t.sum(), -t.sum(), n - 1, 1 - n])
    xor = np.bitwise_xor.reduce(t)
    inc, dec = n % 7, 0
    for _ in range(n):
        dec = 6 if dec == 0 else dec - 1
    np.testing.assert_array_equal(u, [0xFFFFFFFF, 0xFFFF0000, xor, inc, dec])
    np.testing.assert_array_equal(ull, [t.sum() << 20, (n - 1) << 33])
    assert f[0] == n
    assert d[0] == n / 2


@pytest.mark.parametrize("workers", [1, 4])
def test_compare_and_swap_of_all_widths_and_a_lock(module, workers):
    n = 20 * 48
    h, i, ull = np.zeros(1, np.uint16), np.ones(1, np.int32), np.zeros(1, np.uint64)
    wide = np.zeros(4 + 4, np.float32)
    wide = wide[(-wide.ctypes.data // 4) % 4 :][:4]  # 16-byte aligned
    lock, total = np.zeros(1, np.int32), np.zeros(1, np.int32)
    module.run("swaps", 20, 48, h, i, ull, wide, lock, total, workers=workers)
    expected = 1
    for _ in range(n):
        expected = expected * 3 + 1 & 0xFFFF
    assert h[0] == n
    assert i[0] == expected
    assert 1 <= ull[0] <= n
    np.testing.assert_array_equal(wide, [n, 2 * n, 0, -n])
    assert total[0] == n
    assert lock[0] == 0


def test_atomics_on_small_floats(module):
    h, h2 = np.zeros(1, np.float16), np.zeros(2, np.float16)
    b = np.zeros(1, ml_dtypes.bfloat16)
    module.run("small_atomics", 4, 32, h, h2, b)
    assert h[0] == 128
    np.testing.assert_array_equal(h2, [128, 256])
    assert b[0] == 128


def test_integer_intrinsics(module):
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 2**32, (2, 64), dtype=np.uint32)
    a[:3], b[0] = [0, 1, 0x80000000], 0
    out = np.zeros((64, 10), np.uint32)
    module.run("integers", 1, 64, a, b, out)
    for x, y, o in zip(map(int, a), map(int, b), out, strict=True):
        digits = f"{x:032b}"
        both = x.to_bytes(4, "little") + y.to_bytes(4, "little")
        signed = lambda v: v - (1 << 32) if v >> 31 else v  # noqa: E731
        bytes_x, bytes_y = (np.frombuffer(v.to_bytes(4, "little"), np.int8) for v in (x, y))
        dot = int(bytes_x.astype(int) @ bytes_y.astype(int)) + 5
        expected = [
            digits.count("1"), len(digits) - len(digits.lstrip("0")),
            0 if x == 0 else len(digits) - digits.rindex("1"), int(digits[::-1], 2), x * y >> 32,
            int.from_bytes(bytes(both[i] for i in (5, 1, 7, 3)), "little"),
            ((y << 32 | x) << 9 >> 32) & 0xFFFFFFFF, dot & 0xFFFFFFFF, min(x, y),
            (signed(x) * signed(y) >> 32) & 0xFFFFFFFF,
        ]  # fmt: skip
        np.testing.assert_array_equal(o, np.array(expected, np.uint32))


def test_real_functions(module):
    from math import cbrt, erf, pi

    x = np.linspace(-5, 5, 64, dtype=np.float32)
    out = np.zeros((64, 12), np.float32)
    module.run("reals", 1, 64, x, out)
    v = x.astype(float)
    erfs = np.array([erf(a) for a in v])
    cdf = np.array([0.5 * (1 + erf(a / 2**0.5)) for a in v])
    expected = [
        np.exp(v), abs(v) ** -0.5, v / 3, erfs, cdf, np.sin(pi * v), 10**v, None,
        np.clip(v, 0, 1), np.tanh(v), abs(v) ** 1.5, [cbrt(a) for a in v],
    ]  # fmt: skip
    for n, e in enumerate(expected):
        if e is not None:
            np.testing.assert_allclose(out[:, n], e, rtol=2e-6, atol=3e-7, err_msg=str(n))
    np.testing.assert_allclose([erf(a) for a in out[:, 7].astype(float)], v / 20, atol=1e-7)


def test_rounding_directions(module):
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal((2, 64)) * [[1], [1e-3]]).astype(np.float32)
    out, ints = np.zeros((64, 6), np.float32), np.zeros((64, 4), np.int32)
    module.run("rounded", 1, 64, a, b, out, ints)
    exact = a.astype(float) + b.astype(float)  # exact enough to order float32 neighbours
    near = exact.astype(np.float32)
    up = np.where(near < exact, np.nextafter(near, np.float32(np.inf)), near)
    down = np.where(near > exact, np.nextafter(near, np.float32(-np.inf)), near)
    np.testing.assert_array_equal(out[:, :3], np.stack([near, up, down], 1))
    product = a.astype(float) * b.astype(float)
    cut = product.astype(np.float32)
    too_far = abs(cut) > abs(product)
    np.testing.assert_array_equal(
        out[:, 3], np.where(too_far, np.nextafter(cut, np.float32(0)), cut)
    )
    quotient = a.astype(float) / b.astype(float)
    assert (out[:, 4] >= quotient).all()
    assert (np.nextafter(out[:, 4], np.float32(-np.inf)) < quotient).all()
    large = np.clip(np.floor((a * np.float32(1e10)).astype(float)), -(2**31), 2**31 - 1)
    np.testing.assert_array_equal(ints, np.stack([np.rint(a), np.trunc(a), np.ceil(a), large], 1))


def test_multiply_and_add_are_fused_as_on_a_gpu(module):
    a = np.array([1 + 2**-12, 1 + 2**-11], np.float32)
    out = np.zeros(1, np.float32)
    module.run("fused", 1, 1, a, out)
    assert out[0] == np.float32(2.0**-24)  # 0 where the product is rounded first


@pytest.mark.parametrize(
    ("dtype", "kernel"), [(np.float16, "halves"), (ml_dtypes.bfloat16, "bfloats")]
)
def test_small_float_arithmetic(module, dtype, kernel):
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((2, 64)).astype(dtype)
    out = np.zeros((8, 64), dtype)
    module.run(kernel, 1, 64, a, b, out, np.int32(64))
    x, y = a.astype(float), b.astype(float)
    if kernel == "halves":
        low, high = (2 * x).astype(dtype).astype(float), (2 * y).astype(dtype).astype(float)
        expected = [x + y, x * y, x / y, x * y + x, np.exp(x), np.maximum(x, y), low - high]
        expected.append(x.reshape(32, 2)[:, ::-1].reshape(64))
    else:
        expected = [x + y, x * y, x / y, x - y, np.float32(x * y + x), np.minimum(x, y)]
    for n, e in enumerate(expected):
        want = np.asarray(e).astype(dtype)
        np.testing.assert_array_equal(out[n].view(np.uint16), want.view(np.uint16), err_msg=str(n))


def test_conversions_to_small_floats(module):
    rng = np.random.default_rng(3)
    bits = rng.integers(0, 2**32, 4096, dtype=np.uint32)
    x = bits.view(np.float32)
    x[:8] = [0, -0.0, np.inf, -np.inf, 65520, 65519.99, 2**-25, 6e-8]
    x[8:2048] = rng.standard_normal(2040) * 10.0 ** rng.integers(-9, 5, 2040)
    x = np.where(np.isnan(x), np.float32(1), x).astype(np.float32)
    h, down, up = (np.zeros(4096, np.float16) for _ in range(3))
    b = np.zeros(4096, ml_dtypes.bfloat16)
    module.run("to_small", 16, 256, x, h, b, down, up)
    with np.errstate(over="ignore"):
        near = x.astype(np.float16)
    np.testing.assert_array_equal(h.view(np.uint16), near.view(np.uint16))
    np.testing.assert_array_equal(b.view(np.uint16), x.astype(ml_dtypes.bfloat16).view(np.uint16))
    wide = near.astype(float)
    with np.errstate(over="ignore"):
        below = np.where(wide > x, np.nextafter(near, np.float16(-np.inf)), near)
        above = np.where(wide < x, np.nextafter(near, np.float16(np.inf)), near)
    np.testing.assert_array_equal(down, below)
    np.testing.assert_array_equal(up, above)


def test_matrix_fragments(module):
    rng = np.random.default_rng(4)
    a, b = rng.standard_normal((2, 16, 16)).astype(np.float16)
    c = np.zeros((16, 16), np.float32)
    module.run("tensor", 1, 32, a, b, c)
    expected = 2 * (1 + 2 * (a.astype(float) @ b.astype(float).T))
    np.testing.assert_allclose(c, expected, rtol=1e-5, atol=1e-5)


def test_vector_types(module):
    v = np.arange(128, dtype=np.float32).reshape(32, 4)
    out, data = np.zeros((32, 4), np.float32), np.zeros((32, 4), np.uint8)
    module.run("vectors", 1, 32, v, out, data)
    np.testing.assert_array_equal(out, v[:, ::-1])
    np.testing.assert_array_equal(data, [[x, 1, 2, 255] for x in v[:, 0].astype(np.uint8)])


def _is_rounded(got, exact, upwards):
    """Whether a double is the nearest to a rational number that lies on one side of it."""
    beyond = np.nextafter(got, -np.inf if upwards else np.inf)
    if upwards:
        return Fraction(beyond) < exact <= Fraction(got)
    return Fraction(got) <= exact < Fraction(beyond)


def test_rounding_directions_of_doubles(module):
    rng = np.random.default_rng(7)
    a, b = rng.standard_normal((2, 64)) * [[1], [1e-3]]
    out = np.zeros((64, 8))
    module.run("rounded_doubles", 1, 64, a, b, out)
    for x, y, o in zip(map(Fraction, a), map(Fraction, b), out.tolist(), strict=True):
        assert _is_rounded(o[0], x + y, True)
        assert _is_rounded(o[1], x + y, False)
        assert _is_rounded(o[2], x * y, True)
        assert _is_rounded(o[3], x * y, x * y < 0)
        assert _is_rounded(o[4], x / y, False)
        assert _is_rounded(o[5], x / y, True)
        below = np.nextafter(o[6], 0)
        assert Fraction(below) ** 2 < abs(x) <= Fraction(o[6]) ** 2
        above = np.nextafter(o[7], np.inf)
        assert Fraction(o[7]) ** 2 <= abs(x) < Fraction(above) ** 2
