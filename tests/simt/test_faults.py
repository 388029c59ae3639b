"""Faults planted in kernels: each is found, on its line, and named for what it is.

What the analysis cannot find stands at the end, so that a reader knows.
"""

import numpy as np
import pytest

from colibri_lab import simt

from .device import CudaError, marked_line, splits_vectors

FILE = "faults.cu"
N = 128
ONES = np.ones(N, np.float32)
KEYS = (np.arange(N) % 7 % 16).astype(np.int32)


@pytest.fixture
def run(device, observed):
    """Launches a kernel of faults.cu under all checks and returns what was seen."""
    module = device.load(observed(FILE))

    def launch(name, make_args, **shape):
        with simt.observe(counters=False) as seen:
            try:
                device.launch(module, name, *make_args(device), **shape)
            except CudaError as error:
                seen.error = str(error)
        return seen

    return launch


def found(seen, name, trouble):
    """The finding of that kind on the marked line."""
    line = marked_line(FILE, name)
    here = [
        one
        for one in seen.findings
        if one.trouble == trouble and line in (one.place[1], one.place2[1] if one.place2 else 0)
    ]
    assert here, f"nothing of the kind on line {line}; found: {[str(f) for f in seen.findings]}"
    assert all(one.kernel == name for one in seen.findings)
    return here[0]


def out(d):
    return (d.empty(4 * N),)


def in_out(d):
    return d.put(ONES), d.empty(4 * N)


def freed(d):
    address = d.put(ONES)
    d.free(address)
    return address, d.empty(4 * N)


# Kernel, error of the driver, arguments, shape.
STOPPED = [
    ("past_the_end", "out of bounds", 700, lambda d: (*out(d), np.int32(N)), {"grid": 5}),
    ("before_the_start", "out of bounds", 700, in_out, {}),
    ("wild_pointer", "out of bounds", 700, out, {}),
    ("after_free", "use after free", 700, freed, {}),
    pytest.param("misaligned", "misaligned", 716, in_out, {}, marks=splits_vectors),
    (
        "shared_past_the_end",
        "out of bounds",
        700,
        lambda d: (*out(d), np.int32(1)),
        {"shared": 128},
    ),
    ("module_variable", "out of bounds", 700, out, {}),
    ("atomic_past_the_end", "out of bounds", 700, lambda d: (d.put(KEYS[:3]), d.put(KEYS)), {}),
]


@pytest.mark.parametrize(("name", "trouble", "code", "args", "shape"), STOPPED)
def test_stops_the_launch(run, name, trouble, code, args, shape):
    seen = run(name, args, **shape)
    one = found(seen, name, trouble)
    assert one.is_error
    assert str(code) in seen.error
    assert f":{marked_line(FILE, name)}" in seen.error, "the exception names the line"


def test_out_of_bounds_names_thread_and_buffer(run):
    one = run("past_the_end", lambda d: (*out(d), np.int32(N)), grid=5).errors[0]
    assert (one.block, one.thread) == ((4, 0, 0), (0, 0, 0))
    assert "0 bytes past the end of buffer" in one.detail
    assert f"({4 * N} bytes)" in one.detail


def test_before_the_start_names_the_buffer(run):
    one = run("before_the_start", in_out).errors[0]
    assert one.thread == (0, 0, 0)
    assert "4 bytes before buffer" in one.detail


def test_past_a_module_variable(run):
    one = run("module_variable", out).errors[0]
    assert one.thread == (1, 0, 0)
    assert "bytes past the end of module variable" in one.detail


UNWRITTEN = [
    ("uninitialised", lambda d: (d.empty(4 * N), d.empty(4 * N)), {}),
    ("half_copied", lambda d: (d.put(ONES[:16], room=4 * N), d.empty(4 * N)), {}),
    ("counter_not_cleared", out, {}),
    ("stale_shared", out, {"grid": 2, "block": 64}),
    ("accumulator_not_cleared", in_out, {}),
]


@pytest.mark.parametrize(("name", "args", "shape"), UNWRITTEN)
def test_reads_what_nothing_wrote(run, name, args, shape):
    found(run(name, args, **shape), name, "uninitialised read")


def test_unwritten_reads_name_the_first_thread(run):
    one = run("half_copied", UNWRITTEN[1][1]).findings[0]
    assert (one.thread, one.count) == ((16, 0, 0), 16)
    assert "offset 64" in one.detail


def zeros(d):
    return d.put(np.zeros(N, np.int32))


RACES = [
    ("missing_barrier", 1, in_out, {"block": 128}),
    ("race_in_warp", 0, in_out, {}),
    ("warp_synchronous", 0, in_out, {}),
    (
        "reduction_without_barrier",
        1,
        lambda d: (d.put(np.ones(256, np.float32)), *out(d)),
        {"block": 256},
    ),
    ("scan_in_place", 1, in_out, {"block": 128}),
    ("histogram_without_atomics", 0, lambda d: (d.put(KEYS), *out(d)), {"block": 128}),
    (
        "tile_reused_too_early",
        1,
        lambda d: (d.put(np.ones(3 * N, np.float32)), *out(d), np.int32(3)),
        {"block": 128},
    ),
    ("sum_between_blocks", 2, lambda d: (d.put(ONES), zeros(d)), {"grid": 8}),
    ("written_by_a_later_block", 2, in_out, {"grid": 2}),
    ("stencil_in_place", 2, lambda d: (d.put(ONES), np.int32(N)), {"grid": 4}),
    ("reads_what_others_count", 2, lambda d: (zeros(d), *out(d)), {"grid": 4}),
    ("last_block_without_fence", 2, lambda d: (*in_out(d), *out(d)), {"grid": 8}),
    ("flag_without_fence", 2, lambda d: (zeros(d), zeros(d), zeros(d)), {"grid": 2}),
    ("same_cell_twice", 0, out, {}),
    ("bytes_of_a_word", 0, out, {}),
]
SCOPES = ("within a warp", "between warps", "between blocks")


@pytest.mark.parametrize(("name", "scope", "args", "shape"), RACES)
def test_races(run, name, scope, args, shape):
    seen = run(name, args, **shape)
    one = found(seen, name, "race")
    races = [f for f in seen.errors if f.trouble == "race"]
    assert any(SCOPES[scope] in f.detail for f in races), [str(f) for f in races]
    assert one.is_error


def test_a_race_names_both_sides(run):
    one = found(run("missing_barrier", in_out, block=128), "missing_barrier", "race")
    line = marked_line(FILE, "missing_barrier")
    assert {one.place[1], one.place2[1]} == {line - 1, line}
    assert one.thread != one.thread2


DIVERGING = [
    ("barrier_in_branch", out, {"block": 64}),
    ("early_return", lambda d: (*out(d), np.int32(40)), {"block": 64}),
    ("barriers_in_unequal_loops", out, {"block": 96}),
]


@pytest.mark.parametrize(("name", "args", "shape"), DIVERGING)
def test_barrier_divergence(run, name, args, shape):
    found(run(name, args, **shape), name, "barrier divergence")


def test_a_lane_outside_its_mask(run):
    seen = run("not_in_its_mask", out)
    assert "leaves that lane out" in found(seen, "not_in_its_mask", "fault").detail


# Mark, counter, what it is at its worst.
SLOW = [
    (
        "column_walk",
        "global load",
        32,
        lambda d: (d.put(np.ones(1024, np.float32)), *out(d), np.int32(32)),
    ),
    ("every_second", "global load", 8, in_out),
    ("shifted_by_one", "global load", 5, in_out),
]


@pytest.mark.parametrize(("name", "operation", "sectors", "args"), SLOW)
def test_uncoalesced(device, observed, name, operation, sectors, args):
    with simt.observe() as seen:
        device.launch(device.load(observed(FILE)), name, *args(device))
    lines = seen.lines()
    row = lines[(lines.line == marked_line(FILE, name)) & (lines.operation == operation)].iloc[0]
    assert row.sectors_a_request == sectors
    assert not seen.findings


@pytest.mark.parametrize(("name", "ways"), [("conflict_of_32", 32), ("conflict_of_2", 2)])
def test_bank_conflicts(device, observed, name, ways):
    with simt.observe() as seen:
        device.launch(device.load(observed(FILE)), name, *out(device))
    lines = seen.lines()
    row = lines[(lines.line == marked_line(FILE, name)) & (lines.operation == "shared load")].iloc[
        0
    ]
    assert row.wavefronts == ways * row.requests
    assert not seen.findings


def test_one_lane_works(device, observed):
    with simt.observe() as seen:
        device.launch(device.load(observed(FILE)), "one_lane_works", *out(device), np.int32(N))
    lines = seen.lines()
    assert lines[lines.line == marked_line(FILE, "one_lane_works")].active_lanes.iloc[0] == 1
    assert seen.totals()["active_lanes"] < 2


# ---- what it cannot find ----------------------------------------------------------------------


def test_a_wrong_index_inside_the_buffer_is_not_found(run):
    args = lambda d: (d.put(np.ones(4 * N, np.float32)), *out(d), np.int32(7))  # noqa: E731
    assert not run("wrong_row", args).findings


def test_one_shared_array_running_into_the_next_is_found_only_as_a_race(run):
    """No address is out of bounds; what it tramples is another thread's."""
    seen = run("into_the_next_array", out)
    assert {one.trouble for one in seen.findings} == {"race"}
