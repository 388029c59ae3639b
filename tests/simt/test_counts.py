"""Sectors, bank conflicts, lanes and operations of small kernels, against hand counts."""

import math

import numpy as np
import pytest

from colibri_lab import simt

from .device import marked_line, splits_vectors

FILE = "counts.cu"
ONES = np.ones(4096, np.float32)


@pytest.fixture
def run(device, observed):
    """Launches a kernel of counts.cu and returns its rows, by mark."""

    def launch(name, *args, l2_bytes=None, **shape):
        module = device.load(observed(FILE))
        with simt.observe(memory=False, races=False, l2_bytes=l2_bytes) as seen:
            device.launch(module, name, *args, **shape)
        return seen

    return launch


def row(seen, mark, operation):
    """The row of one mark and operation; the kernel is the only one."""
    from colibri_lab.simt.analysis_table import rows_of

    line = marked_line(FILE, mark)
    found = [r for r in rows_of(seen.kernel()) if (r.place[1], r.operation) == (line, operation)]
    assert len(found) == 1, (mark, [(r.place, r.operation) for r in rows_of(seen.kernel())])
    return found[0]


@pytest.mark.parametrize(
    ("stride", "offset", "sectors"),
    [
        (1, 0, 4),
        (1, 1, 5),
        (1, 7, 5),
        (1, 8, 4),
        (2, 0, 8),
        (3, 0, 12),
        (4, 0, 16),
        (7, 0, 28),
        (8, 0, 32),
        (8, 3, 32),
        (16, 0, 32),
        (32, 0, 32),
        (0, 5, 1),
    ],
)
def test_strided(device, run, stride, offset, sectors):
    seen = run("strided", device.put(ONES), device.empty(128), np.int32(stride), np.int32(offset))
    load = row(seen, "strided", "global load")
    assert (load.requests, load.lanes, load.bytes) == (1, 32, 128)
    assert load.sectors == sectors
    assert load.ideal_sectors == (1 if stride == 0 else 4)
    store = row(seen, "strided", "global store")
    assert (store.requests, store.sectors) == (1, 4)


def test_the_order_of_lanes_does_not_matter(device, run):
    seen = run("reversed", device.put(ONES), device.empty(128))
    assert row(seen, "reversed", "global load").sectors == 4


@pytest.mark.parametrize(
    ("at", "sectors"),
    [
        (np.arange(32)[::-1] // 2, 2),
        (np.random.default_rng(0).permutation(32), 4),
        (np.arange(32) % 2 * 1000, 2),
        (np.arange(32) * 37 % 1024, None),
    ],
)
def test_scattered(device, run, at, sectors):
    seen = run("scattered", device.put(at.astype(np.int32)), device.put(ONES), device.empty(128))
    expected = len({int(i) * 4 // 32 for i in at})
    assert sectors in (None, expected)
    assert row(seen, "scattered", "global load").sectors == expected


@splits_vectors
def test_wide_accesses_are_one_request(device, run):
    buffers = [device.put(np.ones(512, np.uint8)) for _ in range(4)]
    seen = run("wide", *buffers, device.empty(128))
    sectors = {"float4": 16, "float2": 8, "double": 8, "byte": 1}
    for mark, expected in sectors.items():
        load = row(seen, mark, "global load")
        assert (load.requests, load.sectors) == (1, expected), mark


def test_naive_transpose(device, run):
    seen = run("transpose_naive", *_square(device), np.int32(64), grid=(2, 2), block=(32, 32))
    load, store = row(seen, "naive_load", "global load"), row(seen, "naive_store", "global store")
    assert (load.requests, load.sectors_a_request) == (128, 4)
    assert (store.requests, store.sectors_a_request, store.ideal_sectors) == (128, 32, 512)


@pytest.mark.parametrize(("name", "passes"), [("transpose_tiled", 32), ("transpose_padded", 1)])
def test_tiled_transpose(device, run, name, passes):
    seen = run(name, *_square(device), np.int32(64), grid=(2, 2), block=(32, 32))
    load = row(seen, "tile_load", "shared load")
    assert (load.requests, load.wavefronts) == (128, 128 * passes)
    assert row(seen, "tile_store", "shared store").conflicts == 0
    assert row(seen, "tile_out", "global store").sectors_a_request == 4


def _square(device):
    return device.put(ONES), device.empty(ONES.nbytes)


@pytest.mark.parametrize("stride", [*range(1, 9), 12, 16, 31, 32, 33])
def test_shared_stride(device, run, stride):
    seen = run("shared_strided", device.empty(128), np.int32(stride), shared=32 * stride * 4)
    load = row(seen, "shared_strided", "shared load")
    assert load.wavefronts == math.gcd(stride, 32)


@splits_vectors
@pytest.mark.parametrize(
    ("stride", "passes4", "passes2"), [(0, 4, 2), (1, 4, 2), (2, 8, 4), (3, 4, 2)]
)
def test_wide_shared_accesses_go_in_phases(device, run, stride, passes4, passes2):
    """Of 16 bytes a quarter of a warp at a time, of 8 bytes half a warp."""
    seen = run("shared_wide", device.empty(512), device.empty(256), np.int32(stride))
    assert row(seen, "shared_float4", "shared load").wavefronts == passes4
    assert row(seen, "shared_float2", "shared load").wavefronts == passes2


@pytest.mark.parametrize(
    ("at", "passes"),
    [
        (np.zeros(32), 1),  # broadcast
        (np.arange(32) % 4, 1),  # four words, eight lanes each
        (np.arange(32) % 2 * 32, 2),  # two words of one bank
        (np.arange(32) // 8 * 32, 4),
        (np.arange(32) * 33 % 1024, 1),  # a diagonal
        (np.random.default_rng(1).permutation(32), 1),
    ],
)
def test_broadcast_is_no_conflict(device, run, at, passes):
    seen = run("shared_pattern", device.put(at.astype(np.int32)), device.empty(128))
    assert row(seen, "shared_pattern", "shared load").wavefronts == passes


def test_lanes_leave_a_loop_one_by_one(device, run):
    seen = run("triangle", device.put(ONES), device.empty(128))
    load = row(seen, "triangle", "global load")
    assert (load.requests, load.lanes, load.sectors) == (31, 31 * 32 // 2, 31)


def test_a_condition_in_a_loop_keeps_iterations_apart(device, run):
    seen = run("turn_by_turn", device.put(ONES), device.empty(128))
    load = row(seen, "turn_by_turn", "global load")
    assert (load.requests, load.lanes, load.sectors) == (4, 32, 16)


def test_both_ways_of_a_branch_and_what_follows(device, run):
    seen = run("two_ways", device.put(ONES), device.empty(128))
    first, second = row(seen, "first_way", "global load"), row(seen, "second_way", "global load")
    assert (first.requests, first.lanes, first.sectors) == (1, 8, 1)
    assert (second.requests, second.lanes, second.sectors) == (1, 24, 6)
    after = row(seen, "together_again", "global store")
    assert (after.requests, after.lanes, after.sectors) == (1, 32, 4)


def test_lanes_meet_again_after_a_call(device, run):
    seen = run("through_a_call", device.put(ONES), device.empty(128))
    load = row(seen, "called", "global load")
    assert load.lanes == 32
    assert load.requests in (1, 2)  # the compiler may make one call of the two
    assert row(seen, "after_the_call", "global store").requests == 1


def test_atomics(device, run):
    seen = run("count_atomics", device.put(np.zeros(4, np.int32)))
    atomic = row(seen, "count_atomics", "global atomic")
    assert (atomic.requests, atomic.lanes, atomic.sectors) == (1, 32, 1)


@pytest.mark.parametrize("n", [128, 100])
def test_arithmetic(device, run, n):
    args = device.put(ONES[:n]), device.put(ONES[:n]), np.float32(2), np.int32(n)
    seen = run("saxpy", *args, grid=2, block=64)
    totals = seen.totals()
    assert totals["flops"] == 2 * n
    assert totals["global_bytes"] == 3 * 4 * n
    assert totals["function_calls"] == 0


def test_functions_and_doubles_apart(device, run):
    seen = run("exponentials", device.put(ONES[:32]), device.empty(128), device.put(np.ones(32)))
    totals = seen.totals()
    assert totals["function_calls"] == 32
    assert totals["float64_flops"] == 2 * 32
    assert totals["flops"] == 3 * 32


def test_l2_keeps_what_fits(device, run):
    n = 1 << 16
    seen = run("read_twice", device.put(np.ones(n, np.float32)), device.empty(128), np.int32(n))
    load = row(seen, "read_twice", "global load")
    assert load.sectors == 2 * n * 4 // 32
    assert (load.l2_misses, load.l2_hits) == (load.sectors // 2, load.sectors // 2)


def test_l2_loses_what_does_not_fit(device, run):
    """Read in a circle, least recently used keeps nothing of what is a little too large."""
    n = 1 << 16
    args = device.put(np.ones(n, np.float32)), device.empty(128), np.int32(n)
    seen = run("read_twice", *args, l2_bytes=n * 4 // 4)
    load = row(seen, "read_twice", "global load")
    assert load.l2_misses == load.sectors


def test_numbers_do_not_depend_on_the_workers(device, observed, monkeypatch):
    n, module = 64, device.load(observed("correct.cu"))
    texts = []
    for workers in ("1", "2", "5"):
        monkeypatch.setenv("COLIBRI_SIMT_WORKERS", workers)
        with simt.observe() as seen:
            a, b = (device.put(np.ones((n, n), np.float32)) for _ in range(2))
            args = a, b, device.empty(4 * n * n), np.int32(n)
            device.launch(module, "sgemm_tiled", *args, grid=(4, 4), block=(16, 16))
        texts.append(str(seen))
        assert seen.totals()["flops"] == 2 * n**3
    assert texts[0] == texts[1] == texts[2]
