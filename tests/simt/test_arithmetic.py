"""Atomics, intrinsics, half, bfloat16 and matrix fragments: results against NumPy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.simt.grids import Module

SOURCE = r"""
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <mma.h>
using namespace nvcuda;

extern "C" {
__global__ void atomics(int *i, unsigned *u, unsigned long long *ull, float *f, double *d) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(i, t); atomicSub(i + 1, t); atomicMax(i + 2, t); atomicMin(i + 3, -t);
  atomicOr(u, 1u << (t & 31)); atomicAnd(u + 1, ~(1u << (t & 15))); atomicXor(u + 2, (unsigned)t);
  atomicInc(u + 3, 6u); atomicDec(u + 4, 6u);
  atomicAdd(ull, (unsigned long long)t << 20); atomicMax(ull + 1, (unsigned long long)t << 33);
  atomicAdd(f, 1.0f); atomicAdd(d, 0.5);
}
__global__ void swaps(unsigned short *h, int *i, unsigned long long *ull, float4 *wide, int *lock, int *total) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned short seen = *h, old;
  do { old = seen; seen = atomicCAS(h, old, (unsigned short)(old + 1)); } while (seen != old);
  int was = *i, now;
  do { now = was; was = atomicCAS(i, now, now * 3 + 1 & 0xffff); } while (was != now);
  atomicExch(ull, (unsigned long long)t + 1);
  float4 before = *wide, tried;
  do {
    tried = before;
    float4 next = make_float4(tried.x + 1, tried.y + 2, tried.z, tried.w - 1);
    before = atomicCAS(wide, tried, next);
  } while (before.x != tried.x);
  while (atomicCAS(lock, 0, 1) != 0) {}   // one lock for the whole grid
  *total = *total + 1;
  __threadfence();
  atomicExch(lock, 0);
}
__global__ void small_atomics(half *h, half2 *h2, __nv_bfloat16 *b) {
  atomicAdd(h, __float2half(1.0f));
  atomicAdd(h2, __floats2half2_rn(1.0f, 2.0f));
  atomicAdd(b, __float2bfloat16(1.0f));
}
__global__ void integers(const unsigned *a, const unsigned *b, unsigned *out) {
  unsigned x = a[threadIdx.x], y = b[threadIdx.x], *o = out + threadIdx.x * 10;
  o[0] = __popc(x); o[1] = __clz(x); o[2] = __ffs(x); o[3] = __brev(x); o[4] = __umulhi(x, y);
  o[5] = __byte_perm(x, y, 0x3715); o[6] = __funnelshift_l(x, y, 9); o[7] = __dp4a((int)x, (int)y, 5);
  o[8] = min(x, y); o[9] = (unsigned)__mulhi((int)x, (int)y);
}
__global__ void reals(const float *x, float *out) {
  float v = x[threadIdx.x], *o = out + threadIdx.x * 12;
  o[0] = __expf(v); o[1] = rsqrtf(fabsf(v)); o[2] = __fdividef(v, 3.f); o[3] = erff(v);
  o[4] = normcdff(v); o[5] = sinpif(v); o[6] = exp10f(v); o[7] = erfinvf(v / 20);
  o[8] = __saturatef(v); o[9] = tanhf(v); o[10] = __powf(fabsf(v), 1.5f); o[11] = cbrtf(v);
}
__global__ void rounded(const float *a, const float *b, float *out, int *ints) {
  float x = a[threadIdx.x], y = b[threadIdx.x], *o = out + threadIdx.x * 6;
  o[0] = __fadd_rn(x, y); o[1] = __fadd_ru(x, y); o[2] = __fadd_rd(x, y); o[3] = __fmul_rz(x, y);
  o[4] = __fdiv_ru(x, y); o[5] = fmaf(x, y, x);
  int *i = ints + threadIdx.x * 4;
  i[0] = __float2int_rn(x); i[1] = __float2int_rz(x); i[2] = __float2int_ru(x); i[3] = __float2int_rd(x * 1e10f);
}
__global__ void fused(const float *a, float *out) { out[threadIdx.x] = a[0] * a[0] - a[1]; }
__global__ void halves(const half *a, const half *b, half *out, int n) {
  int t = threadIdx.x;
  half x = a[t], y = b[t];
  out[t] = x + y; out[n + t] = x * y; out[2 * n + t] = x / y; out[3 * n + t] = __hfma(x, y, x);
  out[4 * n + t] = hexp(x); out[5 * n + t] = __hmax(x, y);
  half2 p = __halves2half2(x, y), q = __hmul2(p, __float2half2_rn(2.f));
  out[6 * n + t] = __low2half(q) - __high2half(q);
  out[7 * n + t] = __shfl_xor_sync(0xffffffffu, x, 1);
}
__global__ void bfloats(const __nv_bfloat16 *a, const __nv_bfloat16 *b, __nv_bfloat16 *out, int n) {
  int t = threadIdx.x;
  __nv_bfloat16 x = a[t], y = b[t];
  out[t] = x + y; out[n + t] = x * y; out[2 * n + t] = x / y; out[3 * n + t] = x - y;
  float2 f = __bfloat1622float2(__halves2bfloat162(x, y));
  out[4 * n + t] = __float2bfloat16(f.x * f.y + f.x);
  out[5 * n + t] = __hlt(x, y) ? x : y;
}
__global__ void to_small(const float *x, half *h, __nv_bfloat16 *b, half *down, half *up) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  h[t] = __float2half(x[t]); b[t] = __float2bfloat16(x[t]);
  down[t] = __float2half_rd(x[t]); up[t] = __float2half_ru(x[t]);
}
__global__ void tensor(const half *a, const half *b, float *c) {
  __shared__ half tile[256];
  for (int i = threadIdx.x; i < 256; i += 32) tile[i] = a[i];
  __syncthreads();
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
  wmma::fill_fragment(fc, 1.0f);
  wmma::load_matrix_sync(fa, tile, 16);
  wmma::load_matrix_sync(fb, b, 16);
  wmma::mma_sync(fc, fa, fb, fc);
  wmma::mma_sync(fc, fa, fb, fc);
  for (int i = 0; i < fc.num_elements; i++) fc.x[i] *= 2.0f;
  wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
}
__global__ void vectors(const float4 *in, float4 *out, uchar4 *bytes) {
  float4 v = in[threadIdx.x];
  out[threadIdx.x] = make_float4(v.w, v.z, v.y, v.x);
  bytes[threadIdx.x] = make_uchar4((unsigned char)v.x, 1, 2, 255);
}
}
"""


@pytest.fixture(scope="module")
def module():
    made = Module(SOURCE)
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


@pytest.mark.parametrize("dtype,kernel", [(np.float16, "halves"), (ml_dtypes.bfloat16, "bfloats")])
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
