"""What kernels do to memory: counters of the emulated device, beside the least there can be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..errors import DeviceUnavailable
from .case import Case
from .catalog import DTYPES, Kernel
from .check import check_case
from .device import Device


@dataclass(frozen=True)
class Profiled:
    """Counters of one kernel on one case; exact, the same in every run, and no times.

    bytes_moved : that loads and stores of global memory ask for;   least_bytes : each array once.
    sectors_a_request : 32-byte sectors that a warp's access touches, mean.   bank_conflicts : of
    shared memory.   dram_bytes : that miss the chosen GPU's L2.   flops : 32-bit operations.
    active_lanes : of 32, mean.   findings : races, bad accesses and barriers, in words.
    """

    name: str
    variant: str
    dtype: str
    shape: str
    worst_error: float
    bytes_moved: int
    least_bytes: int
    dram_bytes: int
    sectors_a_request: float
    bank_conflicts: int
    flops: int
    active_lanes: float
    findings: tuple[str, ...]


def profile(
    device: Device, kernels: Sequence[Kernel], shape: str = ""
) -> Iterator[tuple[Profiled, str]]:
    """Each kernel and dtype on its largest case, or on the case of that label; with its lines.

    Raises DeviceUnavailable on a real GPU, which has a profiler of its own.
    """
    if not device.emulated:
        raise DeviceUnavailable(
            "this GPU is not emulated, so its accesses are not seen",
            hint="profile it with ncu; tools/gpu_check.py holds both side by side",
        )
    for kernel in kernels:
        for dtype in kernel.tolerance:
            yield _profile(device, kernel, dtype, _choose(kernel, dtype, shape))


def _choose(kernel: Kernel, dtype: str, shape: str) -> Case:
    found = list(kernel.cases(DTYPES[dtype]))
    named = [case for case in found if case.label == shape]
    return named[0] if named else max(found, key=lambda case: case.least_bytes)


def _profile(device: Device, kernel: Kernel, dtype: str, case: Case) -> tuple[Profiled, str]:
    from .. import simt

    with simt.observe() as seen:
        # Compiled in here, and so instrumented; the device keeps the plain one for other calls.
        function = device.function(kernel, dtype, ("-DOBSERVED",))
        checked = check_case(device, kernel, dtype, case, function)
    totals = seen.totals(kernel.entry)
    result = Profiled(
        name=kernel.name,
        variant=kernel.variant,
        dtype=dtype,
        shape=case.label,
        worst_error=checked.worst_error,
        bytes_moved=totals["global_bytes"],
        least_bytes=case.least_bytes,
        dram_bytes=totals["dram_bytes"],
        sectors_a_request=totals["sectors_a_request"],
        bank_conflicts=totals["bank_conflicts"],
        flops=totals["flops"],
        active_lanes=totals["active_lanes"],
        findings=tuple(map(str, seen.findings)),
    )
    return result, str(seen)
