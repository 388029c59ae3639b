"""Unchanged PyCUDA on the emulated device (`make pycuda` installs it)."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from colibri_lab import simt

if importlib.util.find_spec("pycuda") is None:
    pytest.skip(
        "PyCUDA is not installed, or could not be built: make pycuda",
        allow_module_level=True,
    )

pytestmark = pytest.mark.filterwarnings(
    "ignore:pycuda.*:UserWarning", "ignore::DeprecationWarning:pycuda"
)

SGEMM = """
#define TILE 16
__global__ void sgemm(const float *a, const float *b, float *c, int m, int n, int k) {
  __shared__ float a_tile[TILE][TILE], b_tile[TILE][TILE];
  int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
  float sum = 0;
  for (int t = 0; t < k; t += TILE) {
    int ka = t + threadIdx.x, kb = t + threadIdx.y;
    a_tile[threadIdx.y][threadIdx.x] = row < m && ka < k ? a[row * k + ka] : 0;
    b_tile[threadIdx.y][threadIdx.x] = col < n && kb < k ? b[kb * n + col] : 0;
    __syncthreads();
    for (int i = 0; i < TILE; i++) sum += a_tile[threadIdx.y][i] * b_tile[i][threadIdx.x];
    __syncthreads();
  }
  if (row < m && col < n) c[row * n + col] = sum;
}

__device__ float offset = 2;

__global__ void shift(float *x) { x[threadIdx.x] += offset; }

__global__ void outside(float *x, int at) {
  x[threadIdx.x + at] = 1;  // the fault
}
"""


@pytest.fixture(scope="module")
def cuda():
    """PyCUDA's driver module."""
    if not simt.enable():
        pytest.skip("a real driver is present: the emulated one stays away")
    import pycuda.driver

    pycuda.driver.init()
    return pycuda.driver


@pytest.fixture(autouse=True)
def context(cuda):
    context = cuda.Device(0).make_context()
    yield context
    simt.clear_fault()
    context.pop()
    context.detach()


@pytest.fixture
def module(cuda):
    from pycuda.compiler import SourceModule

    return SourceModule(SGEMM)


@pytest.mark.parametrize("shape", [(33, 17, 40), (64, 64, 64), (1, 1, 1)])
def test_a_tiled_product(cuda, module, shape):
    m, n, k = shape
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s, dtype=np.float32) for s in ((m, k), (k, n)))
    c = np.empty((m, n), np.float32)
    sizes = (np.int32(size) for size in shape)
    grid = (-(-n // 16), -(-m // 16))
    args = (cuda.In(a), cuda.In(b), cuda.Out(c), *sizes)
    module.get_function("sgemm")(*args, block=(16, 16, 1), grid=grid)
    assert np.abs(c - a.astype(np.float64) @ b).max() < 1e-4


def test_in_out_streams_and_events(cuda, module):
    stream, start, end = cuda.Stream(), cuda.Event(), cuda.Event()
    host = cuda.pagelocked_empty(32, np.float32)
    host[:] = np.arange(32)
    buffer = cuda.mem_alloc(host.nbytes)
    start.record(stream)
    cuda.memcpy_htod_async(buffer, host, stream)
    module.get_function("shift")(buffer, block=(32, 1, 1), stream=stream)
    cuda.memcpy_dtoh_async(host, buffer, stream)
    end.record(stream)
    assert not end.query()
    assert (host == np.arange(32)).all()
    stream.synchronize()
    assert (host == np.arange(32) + 2).all()
    assert end.time_since(start) >= 0

    array = np.zeros(8, np.float32)
    module.get_function("shift")(cuda.InOut(array), block=(8, 1, 1))
    assert (array == 2).all()


def test_a_variable_and_a_prepared_call(cuda, module):
    address, size = module.get_global("offset")
    assert size == 4
    cuda.memcpy_htod(address, np.float32(7))
    buffer = cuda.to_device(np.zeros(4, np.float32))
    shift = module.get_function("shift").prepare("P")
    shift.prepared_call((1, 1), (4, 1, 1), buffer)
    assert (cuda.from_device(buffer, 4, np.float32) == 7).all()


def test_a_copy_of_two_dimensions(cuda):
    whole = np.arange(48, dtype=np.float32).reshape(6, 8)
    buffer, pitch = cuda.mem_alloc_pitch(5 * 4, 4, 4)
    copy = cuda.Memcpy2D()
    copy.set_src_host(whole)
    copy.set_dst_device(buffer)
    copy.src_pitch, copy.dst_pitch = whole.strides[0], pitch
    copy.src_x_in_bytes, copy.src_y = 8, 1
    copy.width_in_bytes, copy.height = 20, 4
    copy(aligned=True)
    back = np.zeros((4, pitch // 4), np.float32)
    cuda.memcpy_dtoh(back, buffer)
    assert (back[:, :5] == whole[1:5, 2:7]).all()


def test_managed_memory_is_the_host_s_too(cuda, module, context):
    array = cuda.managed_empty(4, np.float32, mem_flags=cuda.mem_attach_flags.GLOBAL)
    array[:] = 1
    module.get_function("shift")(array, block=(4, 1, 1))
    context.synchronize()
    assert (array == 3).all()


def test_errors_are_pycuda_s_own(cuda, module, context):
    with pytest.raises(cuda.MemoryError, match="out of memory"):
        cuda.mem_alloc(1 << 50)
    with pytest.raises(cuda.LogicError, match="2048 threads"):
        module.get_function("shift")(np.uint64(0), block=(32, 64, 1))
    with pytest.raises(cuda.LogicError, match="named symbol not found: no kernel 'no'"):
        module.get_function("no")
    context.pop()
    try:
        with pytest.raises(cuda.LogicError, match="invalid device context"):
            cuda.mem_get_info()
        with pytest.raises(cuda.LogicError, match="no currently active context"):
            cuda.Stream()
    finally:
        context.push()


def test_a_fault_names_file_line_block_and_thread(cuda, module, context):
    buffer = cuda.mem_alloc(1024)
    module.get_function("outside")(buffer, np.int32(250), block=(32, 1, 1))  # not yet
    with pytest.raises(cuda.LogicError) as caught:
        context.synchronize()
    text = str(caught.value)
    assert text.startswith("cuCtxSynchronize failed: an illegal memory access was encountered: ")
    # PyCUDA puts a line of its own before the source.
    line = 2 + next(i for i, text in enumerate(SGEMM.splitlines()) if "the fault" in text)
    for part in (f"kernel.cu:{line}", "kernel outside", "block (0, 0, 0)", "thread (6, 0, 0)"):
        assert part in text
    with pytest.raises(cuda.LogicError, match="illegal memory access"):  # it sticks
        cuda.mem_alloc(16)
    simt.clear_fault()


def test_a_compiler_error_is_pycuda_s_own(cuda):
    from pycuda.compiler import SourceModule

    with pytest.raises(cuda.CompileError, match=r"kernel.cu:2:.*nonsense"):
        SourceModule("__global__ void k() { nonsense; }")


def test_arrays_elementwise_reduction_and_scan(cuda):
    from pycuda import gpuarray
    from pycuda.elementwise import ElementwiseKernel
    from pycuda.reduction import ReductionKernel
    from pycuda.scan import InclusiveScanKernel

    values = np.arange(1, 1001, dtype=np.float32)
    on_device = gpuarray.to_gpu(values)
    assert ((2 * on_device + 1).get() == 2 * values + 1).all()
    fused = ElementwiseKernel("float *x, float *y", "y[i] = x[i] * x[i] - 1", "fused")
    squares = gpuarray.empty_like(on_device)
    fused(on_device, squares)
    assert (squares.get() == values**2 - 1).all()
    dot = ReductionKernel(np.float32, "0", "a + b", "x[i] * y[i]", "float *x, float *y")
    assert dot(on_device, on_device).get() == pytest.approx((values.astype(float) ** 2).sum())
    numbers = gpuarray.to_gpu(np.arange(1000, dtype=np.int32))
    InclusiveScanKernel(np.int32, "a + b")(numbers)
    assert (numbers.get() == np.arange(1000).cumsum()).all()


def test_a_memory_pool_keeps_and_gives_back(cuda):
    from pycuda.tools import DeviceMemoryPool

    pool = DeviceMemoryPool()
    free = cuda.mem_get_info()[0]
    block = pool.allocate(1 << 20)
    block.free()
    assert cuda.mem_get_info()[0] < free
    pool.free_held()
    assert cuda.mem_get_info()[0] == free


def test_sources_linked_at_run_time(cuda):
    from pycuda.compiler import DynamicSourceModule

    module = DynamicSourceModule("__global__ void one(int *x) { x[threadIdx.x] = 1; }")
    buffer = cuda.mem_alloc(16)
    module.get_function("one")(buffer, block=(4, 1, 1))
    assert (cuda.from_device(buffer, 4, np.int32) == 1).all()


def run(*args, script="", **environment):
    """Another Python process in a folder of its own; its output, error output and exit status."""
    done = subprocess.run(
        [sys.executable, *args],
        input=textwrap.dedent(script),
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )
    return done.stdout, done.stderr, done.returncode


def test_a_script_runs_unchanged(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, numpy as np, pycuda.autoinit, pycuda.gpuarray as gpuarray\n"
        "print(sys.argv[1:], pycuda.autoinit.device.name(), gpuarray.to_gpu(np.ones(3)).get())\n"
        "sys.exit(3)\n"
    )
    words = ("-m", "colibri_lab.simt", "--gpu", "t4", str(script), "-x", "--gpu")
    out, err, status = run(*words)
    assert out == "['-x', '--gpu'] T4 (emulated on the CPU) [1. 1. 1.]\n", err
    assert status == 3


def test_enabling_after_pycuda_is_refused():
    out, err, _ = run(
        "-",
        script="""
            from colibri_lab.simt import driver
            library = driver._library()
            import pycuda.driver
            try:
                driver.enable()
            except RuntimeError as error:
                print(error)
        """,
    )
    assert out == "call colibri_lab.simt.enable() before PyCUDA is imported\n", err


def test_ctrl_c_stops_a_kernel_and_leaves_the_context(tmp_path):
    out, err, status = run(
        "-",
        script="""
            import os, signal, threading
            import numpy as np
            from colibri_lab import simt
            simt.enable()
            import pycuda.autoinit
            import pycuda.driver as cuda
            from pycuda.compiler import SourceModule
            module = SourceModule(
                "__global__ void spin(volatile int *x) { while (!x[0]) x[1] = 1; }\\n"
                "__global__ void one(int *x) { x[2] = 7; }"
            )
            x = cuda.to_device(np.zeros(4, np.int32))
            module.get_function("spin")(x, block=(1, 1, 1))
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
            try:
                cuda.Context.synchronize()
            except KeyboardInterrupt:
                print("interrupted")
            module.get_function("one")(x, block=(1, 1, 1))
            print(cuda.from_device(x, 4, np.int32))
        """,
    )
    assert (out, status) == ("interrupted\n[0 1 7 0]\n", 0), err
    assert "kernel 'spin' was interrupted: what it wrote is incomplete" in err


def test_what_loading_said_is_nothing_more(cuda, module):
    said = []
    with pytest.raises(
        cuda.LogicError, match=r"image is invalid: the image is no shared object: .* names - $"
    ):
        cuda.module_from_buffer(b"x" * 200, message_handler=lambda *words: said.append(words))
    assert said == [(False, "", "")]
