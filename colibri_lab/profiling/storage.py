"""How fast this machine reads experts: from a disk, past the page cache, and from memory."""

from __future__ import annotations

import errno
import mmap
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from ..errors import DeviceUnavailable, InputError
from . import bandwidth
from .environment import usable_cores

FILE_BYTES = 256 << 20
EXPERT_BYTES = 4 << 20  # of a read, about an expert
SMALL_BYTES = 4096  # of a read that is nearly all latency
IN_MEMORY = {"tmpfs", "ramfs"}
DEPTHS = (1, 2, 4, 8)
ENOUGH = 0.95  # the fewest reads at once that come this near to the best


@dataclass(frozen=True)
class Reading:
    """gbps : 1e9 bytes a second at best.   latency_s : of a small read, median.
    concurrency : reads at once that it takes to come near the best.   how : what was done."""

    gbps: float
    latency_s: float
    concurrency: int
    how: str


def measure_disk(folder: Path, file_bytes: int = FILE_BYTES) -> Reading:
    """Random reads of a file written for it, 4 MiB each, and 4 KiB for the latency.

    The page cache is passed by (O_DIRECT); DeviceUnavailable where the file system cannot, or is in
    memory itself: memory would be measured then.
    """
    if not folder.is_dir():
        raise InputError("there is no such folder", path=folder, expected="a folder on the disk")
    if (kind := _file_system(folder)) in IN_MEMORY:
        raise DeviceUnavailable(
            "this folder is in memory",
            path=folder,
            expected="a folder on a disk",
            found=kind,
            hint="name a folder on a real disk",
        )
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".colibri-disk-") as file:
            _fill(file.fileno(), file_bytes)
            opened = os.open(file.name, os.O_RDONLY | os.O_DIRECT)
            try:
                return _measure(opened, file_bytes)
            finally:
                os.close(opened)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOSPC, errno.EOPNOTSUPP):
            raise
        raise DeviceUnavailable(
            "this folder's disk cannot be measured",
            path=folder,
            expected=f"{file_bytes >> 20} MiB free on a file system that has O_DIRECT",
            found=os.strerror(error.errno),
            hint="name a folder on a real disk",
        ) from error


def _file_system(folder: Path) -> str:
    """Its type as Linux has it, of the nearest mount above the folder; "" where none is known."""
    where = os.path.realpath(folder)
    found = ("", "")
    for line in _mounts():
        _, point, kind, *_ = line.split(" ")
        point = point.replace("\\040", " ")
        above = os.path.commonpath([where, point]) == point
        if above and len(point) >= len(found[0]):
            found = (point, kind)
    return found[1]


def _mounts() -> list[str]:
    try:
        return Path("/proc/self/mounts").read_text().splitlines()
    except OSError:
        return []


def _fill(descriptor: int, size: int) -> None:
    block = os.urandom(1 << 20)  # zeros might be stored as nothing
    for _ in range(size >> 20):
        os.write(descriptor, block)
    os.fsync(descriptor)


def _measure(opened: int, file_bytes: int) -> Reading:
    generator = random.Random(0)
    places = [generator.randrange(file_bytes // SMALL_BYTES) * SMALL_BYTES for _ in range(200)]
    latency_s = statistics.median(_seconds(opened, [place], SMALL_BYTES, 1) for place in places)
    blocks = list(range(0, file_bytes, EXPERT_BYTES))
    rates = {}
    for depth in DEPTHS:
        generator.shuffle(blocks)
        seconds = min(_seconds(opened, blocks, EXPERT_BYTES, depth) for _ in range(2))
        rates[depth] = file_bytes / seconds / 1e9
    best = max(rates.values())
    depth = next(depth for depth, rate in rates.items() if rate >= ENOUGH * best)
    return Reading(best, latency_s, depth, "random reads past the page cache, 4 MiB and 4 KiB")


def _seconds(opened: int, places: Sequence[int], size: int, depth: int) -> float:
    """To read these places with so many reads at once."""

    def read(part: Sequence[int]) -> None:
        with mmap.mmap(-1, size) as buffer:  # aligned, as O_DIRECT wants it
            for place in part:
                os.preadv(opened, [buffer], place)

    parts = [places[index::depth] for index in range(depth)]
    return _timed(lambda: _all(read, parts))


def _all(read: Callable[[Sequence[int]], None], parts: Sequence[Sequence[int]]) -> None:
    if len(parts) == 1:
        read(parts[0])
        return
    with ThreadPoolExecutor(len(parts)) as pool:
        list(pool.map(read, parts))


def _timed(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measure_memory() -> Reading:
    """Reads by all cores. Latency is taken as 0: it is nothing beside an expert's bytes."""
    cores = usable_cores()
    gbps = bandwidth.measure_read_gbps(bandwidth.LARGEST_BYTES, cores)
    return Reading(gbps, 0.0, cores, f"reads of 256 MiB by {cores} threads")
