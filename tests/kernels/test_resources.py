"""Registers and occupancy: what ptxas prints is read right, and no kernel spills."""

import json

import pytest

from colibri_lab.errors import DeviceUnavailable, InputError
from colibri_lab.kernels import CATALOG, find
from colibri_lab.kernels.resources import ARCHITECTURES, find_nvcc, occupancy, parse, resources

PTXAS = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'one' for 'sm_80'
ptxas info    : Function properties for one
    16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 70 registers, used 0 barriers, 2060 bytes smem, 404 bytes cmem[0]
ptxas info    : Compiling entry function 'two' for 'sm_80'
ptxas info    : Function properties for two
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 12 registers, used 0 barriers, 380 bytes cmem[0]
"""


def test_what_ptxas_prints():
    assert parse(PTXAS) == {"one": (70, 20, 2060), "two": (12, 0, 0)}


@pytest.mark.parametrize(
    ("arch", "threads", "registers", "shared", "expected"),
    [  # worked out with NVIDIA's occupancy calculator
        ("sm_80", 256, 32, 0, 1.0),
        ("sm_80", 256, 64, 0, 0.5),
        ("sm_80", 256, 255, 0, 0.125),
        ("sm_80", 32, 16, 0, 0.5),  # 32 blocks of a warp
        ("sm_75", 256, 32, 16384, 1.0),
        ("sm_86", 128, 40, 0, 1.0),
        ("sm_80", 1024, 33, 0, 0.5),
    ],
)
def test_occupancy(arch, threads, registers, shared, expected):
    assert occupancy(arch, threads, registers, shared) == pytest.approx(expected)


def test_no_kernel_spills():
    try:
        find_nvcc()
    except DeviceUnavailable:
        pytest.skip("nvcc is not installed")
    found = list(resources(find([]), ["sm_80"]))
    assert {each.entry for each in found} == {kernel.entry for kernel in CATALOG}
    assert [each.entry for each in found if each.spill_bytes] == []
    assert min(each.registers for each in found) > 0


def test_an_architecture_that_is_not_known():
    with pytest.raises(InputError, match="architecture is not known"):
        list(resources(find(["silu_mul"]), ["sm_20"]))


def test_what_is_recorded_is_whole_and_spills_nothing(repository):
    """`kernels resources --json` of every kernel, dtype and architecture, kept with the docs."""
    recorded = json.loads((repository / "docs" / "kernel-resources.json").read_text())["results"]
    expected = {
        (kernel.entry, dtype, arch)
        for kernel in CATALOG
        for dtype in kernel.tolerance
        for arch in ARCHITECTURES
    }
    assert {(row["entry"], row["dtype"], row["arch"]) for row in recorded} == expected
    assert [row["entry"] for row in recorded if row["spill_bytes"]] == []
