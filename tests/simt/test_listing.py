"""What was observed, as text, as a table, as an annotated listing and as pictures."""

import re

import numpy as np
import pytest

from colibri_lab import simt
from colibri_lab.simt.analysis_records import name_of
from colibri_lab.simt.analysis_source import section_of, source_lines

from .device import HERE, marked_line

N = 64


@pytest.fixture
def seen(device, observed):
    """A transpose without padding, with a kernel of another file that races."""
    with simt.observe(steps=40) as seen:
        a, b = device.put(np.ones(N * N, np.float32)), device.empty(4 * N * N)
        module = device.load(observed("counts.cu"))
        device.launch(module, "transpose_tiled", a, b, np.int32(N), grid=(2, 2), block=(32, 32))
        module = device.load(observed("faults.cu"))
        device.launch(module, "missing_barrier", a, b, block=128)
    return seen


def test_text_names_lines_and_numbers(seen):
    text = str(seen)
    assert text.startswith("observed on the emulated device: counters, memory, races; no times")
    line = marked_line("counts.cu", "tile_load")
    row = next(row for row in text.splitlines() if f"counts.cu:{line}" in row and "shared" in row)
    assert row.split() == [f"counts.cu:{line}", "shared", "load", "128", "32.0", "-", str(31 * 128)]
    assert "transpose_tiled: 1 launch, the last with grid (2, 2, 1) and block (32, 32, 1)" in text
    assert "! race in missing_barrier" in text
    assert re.search(r"\n  nothing wrong found\n", text)


def test_no_number_of_the_text_is_a_time(seen):
    assert not re.search(r"\d ?(ns|us|ms|s|GB/s|%)\b", str(seen))


def test_a_race_is_shown_once_a_pair_of_lines(seen):
    races = [one for one in seen.findings if one.trouble == "race"]
    assert len(races) == 1
    assert races[0].count == 2 * 64  # each of 128 words, against the thread that wrote it


def test_table(seen):
    table = seen.lines()
    assert set(table.kernel) == {"transpose_tiled", "missing_barrier"}
    row = table[(table.line == marked_line("counts.cu", "tile_load"))].iloc[0]
    assert (row.operation, row.requests, row.conflicts) == ("shared load", 128, 31 * 128)
    row = table[(table.line == marked_line("counts.cu", "tile_out"))].iloc[0]
    assert (row.bytes, row.sectors_a_request) == (4 * N * N, 4.0)
    assert len(seen.lines("missing_barrier")) < len(table)


def test_totals(seen):
    totals = seen.totals("transpose_tiled")
    assert totals["emulated"] is True
    assert totals["global_bytes"] == 2 * 4 * N * N
    assert totals["sectors"] == totals["ideal_sectors"] == 2 * 4 * N * N // 32
    assert totals["bank_conflicts"] == 31 * 128
    assert totals["shared_bytes"] == 2 * 4 * N * N
    assert totals["active_lanes"] == 32
    assert totals["flops"] == 0


def test_totals_agree_with_the_table(seen):
    table, totals = seen.lines("transpose_tiled"), seen.totals("transpose_tiled")
    assert table.sectors.sum() == totals["sectors"]
    assert table.conflicts.sum() == totals["bank_conflicts"]


def test_asking_for_no_kernel_of_several(seen):
    with pytest.raises(KeyError, match="transpose_tiled, missing_barrier"):
        seen.totals()
    with pytest.raises(KeyError, match="expected one kernel nobody"):
        seen.kernel("nobody")


def test_check_raises_what_was_found(seen):
    with pytest.raises(simt.FoundError, match=r"race in missing_barrier, faults.cu:\d+") as caught:
        seen.check()
    assert caught.value.findings == seen.errors


def test_listing_has_the_source_and_marks_what_is_bad(seen):
    html = seen.listing("transpose_tiled").html
    line = marked_line("counts.cu", "tile_load")
    row = next(row for row in html.split("<tr>") if row.startswith(f"<td>{line}</td>"))
    assert "float v = tile[threadIdx.x][threadIdx.y];" in row
    assert f'<td class="hot">{31 * 128:,}</td>' in row
    assert "emulated, no times" in html
    assert "<script" not in html
    assert "http" not in html.replace("http://www.w3.org", "")


def test_listing_puts_findings_under_their_lines(seen):
    html = seen.listing("missing_barrier").html
    line = marked_line("faults.cu", "missing_barrier")
    after = html[html.index(f"<td>{line - 1}</td>") :]
    assert "! race in missing_barrier" in after
    assert html.count('class="note"') == len(seen.kernel("missing_barrier").findings)


def test_source_comes_from_the_image(seen, observed):
    """PyCUDA deletes the file that it compiles."""
    assert section_of(observed("faults.cu"), ".simt.source") == (HERE / "faults.cu").read_bytes()
    assert section_of(observed("faults.cu"), ".nothing") is None
    kernel = seen.kernel("missing_barrier")
    expected = (HERE / "faults.cu").read_text().splitlines()
    assert source_lines(kernel, kernel.source_path) == expected
    assert source_lines(kernel, "/nowhere/kernel.cu") is None


def test_steps_follow_block_0(seen):
    steps = seen.steps("missing_barrier")
    text = repr(steps).splitlines()
    line = marked_line("faults.cu", "missing_barrier")
    assert text[0] == f"1. faults.cu:{line - 1}: global load, warp 0, 32 lanes, 4 sectors"
    assert text[1].endswith("shared store, warp 0, 32 lanes, 1 to the busiest bank")
    reversed_load = next(s for s in steps.steps if s.operation == "shared load")
    assert reversed_load.offsets == {lane: 4 * (127 - lane) for lane in range(32)}
    assert len(steps.of_line(line)) == 2 * 4  # a load and a store by each of four warps


def test_steps_have_barriers_between(seen):
    operations = [step.operation for step in seen.steps("transpose_tiled").steps]
    assert len(operations) == 40
    assert "barrier" not in operations  # 32 warps load and store first
    with_barrier = [step for step in seen.steps("missing_barrier").steps if not step.offsets]
    assert not with_barrier


def test_pictures_say_what_they_show(seen):
    html = seen.steps("missing_barrier")[:2]._repr_html_()
    assert html.count("<svg") == 2
    assert 'aria-label="1. faults.cu' in html
    assert html.count("<title>lane 0, word 0</title>") == 1


def test_a_module_compiled_outside_is_not_seen_and_said_so(device, plain):
    with simt.observe() as seen:
        module = device.load(plain("correct.cu"))
        a = device.put(np.ones(N, np.float32))
        device.launch(module, "in_place", a, np.int32(N), block=64)
        np.testing.assert_array_equal(device.get(a, N), 1)
    assert "compiled outside `observe`: nothing was seen of it" in str(seen)
    assert not seen.findings


def test_what_an_unseen_kernel_wrote_counts_as_written(device, plain, observed):
    with simt.observe() as seen:
        a, b = device.put(np.ones(N, np.float32)), device.empty(4 * N)
        args = a, b, np.int32(N)
        device.launch(device.load(plain("correct.cu")), "grid_stride", *args, block=64)
        device.launch(device.load(observed("correct.cu")), "in_place", b, np.int32(N), block=64)
    assert not seen.findings


def test_observing_ends_with_the_block(device, observed):
    module = device.load(observed("correct.cu"))
    a = device.put(np.ones(N, np.float32))
    with simt.observe() as seen:
        device.launch(module, "in_place", a, np.int32(N), block=64)
    before = str(seen)
    device.launch(module, "in_place", a, np.int32(N), block=64)
    assert str(seen) == before
    with simt.observe() as again:
        pass
    assert again.kernels == []


def test_launches_add_up(device, observed):
    module = device.load(observed("correct.cu"))
    a = device.put(np.ones(N, np.float32))
    with simt.observe() as seen:
        for _ in range(3):
            device.launch(module, "in_place", a, np.int32(N), block=64)
    assert seen.kernel().launches == 3
    assert seen.totals()["global_bytes"] == 3 * 2 * 4 * N


def test_places():
    assert name_of(("/tmp/a b/kernel.cu", 3)) == "kernel.cu:3"
    assert name_of(("", 0)) == "unknown line"
