"""Which lanes' accesses are one request, where lanes diverge."""

import numpy as np
import pytest

from colibri_lab import simt
from colibri_lab.simt.analysis_table import rows_of
from colibri_lab.simt.compiler import compile_source
from colibri_lab.simt.nvcc_arguments import parse

from . import programs


def compiled(path, text):
    path.write_text(text)
    return compile_source(parse(["--cubin", str(path)]), str(path))


def atomics(kernel):
    return {
        row.place[1]: (row.requests, row.lanes)
        for row in rows_of(kernel)
        if row.operation == "global atomic"
    }


def test_random_programs(device, tmp_path):
    all_programs = [programs.make(seed) for seed in range(40)]
    with simt.observe(memory=False, races=False) as seen:
        module = device.load(compiled(tmp_path / "random.cu", programs.source(all_programs)))
        for program in all_programs:
            device.launch(module, f"k{program.seed}", device.put(np.zeros(500, np.int32)))
    for program in all_programs:
        assert atomics(seen.kernel(f"k{program.seed}")) == programs.expected(program)


LONG = """\
extern "C" __global__ void unequal(int *count, int step) {
  for (int i = 0; i < (threadIdx.x % 32 + 1) * step; i++)
    atomicAdd(&count[0], 1);
  atomicAdd(&count[1], 1);
}
extern "C" __global__ void inner(int *count, int step) {
  for (int i = 0; i < step; i++) {
    for (int j = 0; j < (threadIdx.x + i) % 5; j++)
      atomicAdd(&count[0], 1);
    atomicAdd(&count[1], 1);
  }
}
extern "C" __global__ void one_at_a_time(int *lock, int *count) {
  bool done = false;
  while (!done)
    if (atomicCAS(lock, 0, 1) == 0) {
      for (int i = 0; i < 400; i++)
        *(volatile int *)count += 1;
      __threadfence();
      atomicExch(lock, 0);
      done = true;
    }
}
"""


@pytest.fixture
def long_loops(device, tmp_path):
    """A function that launches one of LONG's kernels and returns what was seen."""

    def launch(name, *args, block=32):
        with simt.observe(memory=False) as seen:
            module = device.load(compiled(tmp_path / "long.cu", LONG))
            device.launch(module, name, *args, block=block)
        return seen

    return launch


@pytest.mark.parametrize("step", [1, 7, 100])
def test_longer_than_a_log(device, long_loops, step):
    """Lanes give way when their logs are full, and still are taken together."""
    seen = long_loops("unequal", device.put(np.zeros(2, np.int32)), np.int32(step), block=64)
    counts = atomics(seen.kernel())
    assert counts[3] == (2 * 32 * step, 2 * step * 32 * 33 // 2)
    assert counts[4] == (2, 64)


@pytest.mark.parametrize("step", [10, 1000])
def test_lanes_fill_their_logs_at_different_times(device, long_loops, step):
    seen = long_loops("inner", device.put(np.zeros(2, np.int32)), np.int32(step))
    counts = atomics(seen.kernel())
    trips = (np.arange(32)[:, None] + np.arange(step)) % 5
    assert counts[9] == (trips.max(0).sum(), trips.sum())
    assert counts[10] == (step, 32 * step)


def test_lanes_that_wait_for_one_another(device, long_loops):
    """One holds a lock for longer than a log: nothing hangs, and no access is lost."""
    lock, count = (device.put(np.zeros(1, np.int32)) for _ in range(2))
    seen = long_loops("one_at_a_time", lock, count, block=64)
    assert device.get(count, 1, np.int32)[0] == 64 * 400
    rows = {(row.place[1], row.operation): row for row in rows_of(seen.kernel())}
    assert rows[18, "global volatile store"].lanes == 64 * 400
    assert rows[20, "global atomic"].lanes == 64
    assert not seen.errors, [str(one) for one in seen.errors]
