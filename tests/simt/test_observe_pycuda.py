"""Observing what PyCUDA compiles and launches, in a process of its own."""

import importlib.util
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("pycuda") is None,
    reason="PyCUDA is not installed, or could not be built: make pycuda",
)

HEAD = """
import os
import numpy as np
from colibri_lab import simt
simt.enable()
import pycuda.autoinit, pycuda.driver as cuda, pycuda.gpuarray as gpuarray
from pycuda.compiler import SourceModule
SOURCE = '''
__global__ void twice(float *x) {
  x[threadIdx.x] *= 2.0f;
}
'''
x = np.ones(64, np.float32)
def run():
    module = SourceModule(SOURCE, cache_dir=os.environ["CACHE"])
    module.get_function("twice")(cuda.InOut(x), block=(64, 1, 1))
"""


@pytest.fixture
def output(monkeypatch, tmp_path):
    """Runs a body after HEAD, with an empty cache of PyCUDA's, and returns the lines it prints."""
    monkeypatch.setenv("CACHE", str(tmp_path))
    return _output


def _output(body):
    command = [sys.executable, "-W", "ignore", "-c", HEAD + textwrap.dedent(body)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")


def test_a_source_that_was_compiled_before(output):
    """PyCUDA's caches give no image that was made for other checks."""
    body = """
    run()
    for i in range(2):
        with simt.observe(races=bool(i)) as seen:
            run()
        print(seen.kernel().is_instrumented, seen.totals()["global_bytes"])
        run()
    print(x[0])
    """
    assert output(body)[:3] == ["True 512", "True 512", "32.0"]


def test_kernels_behind_gpuarray(output):
    body = """
    a = gpuarray.to_gpu(x)
    print((2 * a + 1).get().sum())
    with simt.observe() as seen:
        print((2 * a + 1).get().sum(), gpuarray.sum(a).get())
    print(all(k.is_instrumented for k in seen.kernels), len(seen.kernels) > 1)
    print({f.trouble for f in seen.errors} <= {"race"})
    """
    assert output(body)[:4] == ["192.0", "192.0 64.0", "True True", "True"]


def test_the_listing_has_the_source_that_pycuda_deleted(output):
    body = """
    with simt.observe() as seen:
        run()
    print(seen.kernel().source_path, "x[threadIdx.x] *= 2.0f;" in seen.listing().html)
    """
    assert output(body)[0] == "kernel.cu True"


def test_a_missing_synchronisation_shows_as_a_stale_value(output):
    """By value, not by line: what the host reads is not observed."""
    body = """
    stream = cuda.Stream()
    host = cuda.pagelocked_zeros(64, np.float32)
    device = gpuarray.to_gpu(x)
    with simt.observe() as seen:
        twice = SourceModule(SOURCE).get_function("twice")
        twice(device.gpudata, block=(64, 1, 1), stream=stream)
        cuda.memcpy_dtoh_async(host, device.gpudata, stream)
        print(host[0])
        stream.synchronize()
        print(host[0], seen.findings)
    """
    assert output(body)[:2] == ["0.0", "2.0 []"]
