"""Faults in kernels, deadlocks, interrupts, printing, and what ten thousand launches leave."""

from __future__ import annotations

import resource
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from tests.simt.grids import LaunchError, Module, library, marked_line, source


@pytest.fixture(scope="module")
def module():
    made = Module(source("runtime.cu"))
    yield made
    made.close()


@pytest.fixture
def memory():
    return np.zeros(256, np.int32)


def _fault(module, name, grid, block, *args):
    with pytest.raises(LaunchError) as caught:
        module.run(name, grid, block, *args)
    return caught.value


def _still_works(module):
    x = np.arange(640, dtype=np.float32)
    module.run("square", 10, 64, x)
    np.testing.assert_array_equal(x, np.arange(640.0) ** 2)


def test_a_bad_address(module, memory):
    fault = _fault(module, "bad_store", 4, 64, memory, np.int32(37))
    assert fault.code == 700
    assert (fault.block, fault.thread) == ((2, 0, 0), (37, 0, 0))
    for part in (
        marked_line("runtime.cu", "store"),
        "bad_store",
        "block (2, 0, 0)",
        "thread (37, 0, 0)",
        "illegal",
    ):
        assert part in str(fault)
    _still_works(module)


def test_a_bad_address_in_a_library_function(module):
    fault = _fault(module, "bad_copy", 1, 1, np.zeros(4096, np.uint8))
    assert fault.code == 700
    assert marked_line("runtime.cu", "copy") in str(fault)


@pytest.mark.parametrize(
    ("name", "code", "says"),
    [
        ("divide", 719, "division by zero"),
        ("endless_recursion", 714, "stack overflow"),
        ("asserted", 710, "`threadIdx.x != 3`"),
        ("trapped", 719, "__trap"),
        ("wrong_mask", 719, "lane 16 calls __shfl_sync with the mask 0x0000ffff"),
        ("ptx", 801, "inline PTX (ld.global.nc.u32 0, [1]) is not emulated"),
    ],
)
def test_faults(module, memory, name, code, says, capfd):
    fault = _fault(module, name, 2, 64, memory)
    assert fault.code == code
    assert says in str(fault)
    assert "kernel.cu:" in str(fault)
    printed = capfd.readouterr().err
    assert ("Assertion `threadIdx.x != 3` failed" in printed) == (name == "asserted")
    _still_works(module)


def test_a_deadlock_is_told_by_line(module, memory):
    fault = _fault(module, "divergent", 1, 64, memory)
    assert fault.code == 702
    barrier, shuffle = (marked_line("runtime.cu", mark) for mark in ("barrier", "shuffle"))
    assert f"40 threads wait in __syncthreads at {barrier}" in str(fault)
    assert f"24 threads wait in __shfl_sync at {shuffle}" in str(fault)
    _still_works(module)


@pytest.mark.parametrize("name", ["forever", "forever_at_barriers"])
@pytest.mark.parametrize("workers", [1, 3])
def test_interrupts(module, memory, name, workers):
    timer = threading.Timer(0.2, library().simt_cancel)
    timer.start()
    started = time.monotonic()
    with pytest.raises(LaunchError, match="interrupted") as caught:
        module.run(name, 4, 64, memory, workers=workers)
    assert caught.value.code == 719
    assert time.monotonic() - started < 10
    timer.join()
    _still_works(module)


def test_threads_that_wait_for_each_other_without_a_barrier(module, memory):
    module.run("flag", 1, 128, memory)
    assert list(memory[:2]) == [1, 2]


@pytest.mark.parametrize("workers", [1, 4])
def test_spin_locks(module, memory, workers):
    lock, total = np.zeros(1, np.int32), np.zeros(1, np.int32)
    module.run("spin_lock", 30, 64, lock, total, workers=workers)
    assert total[0] == 30 * 64


def test_printing(module, capfd):
    module.run("printing", 2, 64, np.int32(2))
    lines = sorted(capfd.readouterr().out.splitlines())
    assert lines == [f"block {b} thread {t} says  1.50%" for b in (0, 1) for t in (0, 1)]


def test_clocks_only_grow(module):
    out = np.zeros(64, np.int64)
    module.run("clocks", 1, 64, out)
    assert (out > 0).all()


def test_shared_memory_does_not_begin_as_zeros(module, memory):
    out = np.zeros(64, np.uint32)
    module.run("stale", 1, 64, out)
    np.testing.assert_array_equal(out, 0xFFFFFFFF)


def test_ten_thousand_launches_leave_nothing(module):
    x = np.ones(640, np.float32)

    def launch(times):
        for _ in range(times):
            module.run("square", 10, 64, x)
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    before = launch(500)
    after = launch(10_000)
    assert after - before < 2048  # KiB


def test_launches_from_several_threads(module):
    arrays = [np.full(640, n + 2, np.float32) for n in range(4)]

    def work(x):
        for _ in range(5):
            module.run("square", 10, 64, x)
            x[:] = np.sqrt(x)

    threads = [threading.Thread(target=work, args=(x,)) for x in arrays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for n, x in enumerate(arrays):
        np.testing.assert_array_equal(x, n + 2)


_FORKED = """
import os, numpy as np
from tests.simt.grids import Module, source
module = Module(source("runtime.cu"))
def square():
    x = np.arange(640, dtype=np.float32)
    module.run("square", 10, 64, x, workers=3)
    assert (x == np.arange(640.0) ** 2).all()
square()
child = os.fork()
square()
if child == 0:
    os._exit(7)
module.close()
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
"""


def test_a_forked_child_launches_too():
    command = [sys.executable, "-W", "ignore", "-c", _FORKED]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, timeout=60, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


def test_blocks_that_wait_for_later_ones(module):
    count, out = np.zeros(1, np.int32), np.zeros((5, 64), np.int32)
    module.run("meet_all_blocks", 5, 64, count, out, workers=1)
    np.testing.assert_array_equal(out, 5)


@pytest.mark.parametrize("block", [(1025,), (32, 33), (0,)])
def test_blocks_of_impossible_size(module, block):
    fault = _fault(module, "square", 1, block, np.zeros(2000, np.float32))
    assert fault.code == 1
