"""Which block size is fastest on this GPU: for the launch table, or for one's own calls."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ..errors import DeviceUnavailable, WorkFailed
from .case import Case
from .catalog import DTYPES, Kernel
from .device import Device, on_device
from .geometry import THREADS, threads_of

CANDIDATES = (32, 64, 128, 256, 512, 1024)
Timer = Callable[[Callable[[], None]], float]  # runs a call often enough, and says how long one is


@dataclass(frozen=True)
class Tuned:
    """threads : the fastest.   ms : of it.   table_threads, table_ms : as the table has it.
    refused : sizes that the device would not launch."""

    entry: str
    dtype: str
    shape: str
    threads: int
    ms: float
    table_threads: int
    table_ms: float
    refused: tuple[int, ...]


def tune(device: Device, kernels: Sequence[Kernel], timer: Timer) -> Iterator[Tuned]:
    """Each kernel that leaves its block size open, on its largest case.

    Raises DeviceUnavailable on the emulated device, whose times mean nothing.
    """
    if device.emulated:
        raise DeviceUnavailable(
            "an emulated device cannot be tuned: its times mean nothing",
            hint="run it on a machine with a GPU",
        )
    for kernel in kernels:
        if kernel.entry in THREADS["default"]:
            for dtype in kernel.tolerance:
                yield _tune(device, kernel, dtype, timer)


def by_events(device: Device, repeats: int = 30) -> Timer:
    """A timer: the median of calls between two events, after three to warm up; milliseconds."""
    driver = device.driver

    def timer(work: Callable[[], None]) -> float:
        samples = []
        for number in range(repeats + 3):
            start, end = driver.Event(), driver.Event()
            start.record()
            work()
            end.record()
            end.synchronize()
            if number >= 3:
                samples.append(float(start.time_till(end)))
        return statistics.median(samples)

    return timer


def _tune(device: Device, kernel: Kernel, dtype: str, timer: Timer) -> Tuned:
    case = max(kernel.cases(DTYPES[dtype]), key=lambda case: case.least_bytes)
    function = device.function(kernel, dtype)
    arguments = [on_device(device.driver, value) for value in case.arguments.values()]
    table = threads_of(kernel.entry, device.capability)
    times: dict[int, float] = {}
    for threads in sorted({*CANDIDATES, table}):
        try:
            times[threads] = timer(_call(device, function, kernel, case, arguments, threads))
        except WorkFailed:
            continue
    best = min(times, key=times.__getitem__)
    refused = tuple(sorted({*CANDIDATES, table} - set(times)))
    return Tuned(kernel.entry, dtype, case.label, best, times[best], table, times[table], refused)


def _call(
    device: Device,
    function: object,
    kernel: Kernel,
    case: Case,
    arguments: list[object],
    threads: int,
) -> Callable[[], None]:
    launch = kernel.launch(case, device.capability, threads)
    return lambda: device.queue(function, launch, arguments)  # waiting would be timed, too
