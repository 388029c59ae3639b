"""What this machine can do for the workbench, and what each missing thing costs."""

from __future__ import annotations

import ctypes.util
import importlib.util
import resource
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from . import bandwidth, counters
from .environment import describe, usable_cores

Status = Literal["ok", "missing", "limited"]
COMPILERS = {
    "g++": ("without clang++ too, CUDA cannot be emulated", "apt install g++"),
    "clang++": ("none where g++ is there", "apt install clang"),
    "nvcc": ("registers and spills of the kernels cannot be told",
             "pip install 'colibri-lab[nvcc]'; it needs no GPU"),
}  # fmt: skip
HUGE_PAGES = Path("/sys/kernel/mm")


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    value : what is there, in words.   cost : what its lack costs.   remedy : how to get it.
    data : the value in numbers, for scripts.
    """

    name: str
    status: Status
    value: str
    cost: str = ""
    remedy: str = ""
    data: Any = None


def examine() -> Iterator[Finding]:
    """Everything that `colibri-lab doctor` reports, one after the other."""
    environment = describe()
    yield _cores(environment)
    yield _simd(environment)
    yield _memory(environment)
    yield from _limits()
    yield _blas(environment)
    yield _transparent_huge_pages()
    yield _reserved_huge_pages()
    yield _memory_lock()
    yield _numa()
    yield _counters()
    yield _gpu()
    yield from _compilers()
    yield from _packages()


def _cores(environment: dict[str, Any]) -> Finding:
    usable, logical = usable_cores(), environment["logical_cores"]
    text = (
        f"{environment['cpu'] or environment['architecture']}, {usable} of {logical} cores usable"
    )
    if usable > 1:
        return Finding("cores", "ok", text, data=usable)
    return Finding(
        "cores", "limited", text, "streams share one core, and gain nothing",
        "run outside a one-core container or affinity mask", usable,
    )  # fmt: skip


def _simd(environment: dict[str, Any]) -> Finding:
    found = environment["simd"]
    if found:
        return Finding("SIMD", "ok", ", ".join(found), data=found)
    return Finding("SIMD", "limited", "none known", "BLAS falls back to slow kernels", data=[])


def _memory(environment: dict[str, Any]) -> Finding:
    size = environment["memory_bytes"]
    text = "unknown" if size is None else f"{size / 2**30:.1f} GiB"
    caches = ", ".join(f"{name} {size}" for name, size in environment["caches"].items())
    return Finding("memory", "ok", f"{text}; {caches or 'caches unknown'}", data=size)


def _limits() -> Iterator[Finding]:
    threads = usable_cores()
    counts = sorted({1, threads})
    for name, size in {"memory": bandwidth.LARGEST_BYTES, "1 MiB in cache": 1 << 20}.items():
        rates = {count: bandwidth.measure_read_gbps(size, count) for count in counts}
        text = ", ".join(f"{rate:.1f} GB/s on {count}" for count, rate in rates.items())
        yield Finding(f"read bandwidth, {name}", "ok", f"{text} (threads)", data=rates)
    rates = {count: bandwidth.measure_gflops(count) for count in counts}
    text = ", ".join(f"{rate:.0f} GFLOP/s on {count}" for count, rate in rates.items())
    yield Finding("float32 product", "ok", f"{text} (threads)", data=rates)


def _blas(environment: dict[str, Any]) -> Finding:
    found = environment["blas"]
    if found:
        return Finding("BLAS", "ok", found, data=found)
    return Finding(
        "BLAS", "limited", "none that can be steered", "its threads cannot be pinned, times spread",
        "pip install numpy, whose wheels have OpenBLAS",
    )  # fmt: skip


def _transparent_huge_pages() -> Finding:
    text = _read(HUGE_PAGES / "transparent_hugepage/enabled")
    if text is None:
        return Finding("transparent huge pages", "missing", "not in this kernel", "more TLB misses")
    mode = text.partition("[")[2].partition("]")[0]
    name = "transparent huge pages"
    if mode == "never":
        return Finding(
            name, "missing", mode, "scattered reads of large weights miss the TLB more often",
            "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled", mode,
        )  # fmt: skip
    return Finding(name, "ok", mode, data=mode)


def _reserved_huge_pages() -> Finding:
    found = {}
    for folder in sorted((HUGE_PAGES / "hugepages").glob("hugepages-*")):
        size = folder.name.removeprefix("hugepages-")
        found[size] = int(_read(folder / "nr_hugepages") or 0)
    text = ", ".join(f"{count} of {size}" for size, count in found.items()) or "none"
    if any(found.values()):
        return Finding("reserved huge pages", "ok", text, data=found)
    return Finding(
        "reserved huge pages", "missing", text, "explicit 2 MiB and 1 GiB pages cannot be tried",
        "sudo sysctl vm.nr_hugepages=512", found,
    )  # fmt: skip


def _memory_lock() -> Finding:
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if soft == resource.RLIM_INFINITY or soft >= 1 << 30:
        text = "no limit" if soft == resource.RLIM_INFINITY else f"{soft / 2**30:.1f} GiB"
        return Finding("memory lock", "ok", text, data=soft)
    return Finding(
        "memory lock", "limited", f"{soft / 2**20:.0f} MiB", "large weights cannot be locked",
        "raise memlock in /etc/security/limits.conf", soft,
    )  # fmt: skip


def _numa() -> Finding:
    nodes = len(list(Path("/sys/devices/system/node").glob("node[0-9]*"))) or 1
    if nodes > 1:
        return Finding("NUMA", "ok", f"{nodes} nodes", data=nodes)
    return Finding("NUMA", "limited", "1 node", "binding memory to nodes cannot be tried", data=1)


def _counters() -> Finding:
    reason = counters.why_unavailable()
    if reason is None:
        return Finding("performance counters", "ok", "can be opened")
    return Finding(
        "performance counters", "missing", reason, "cache and TLB misses cannot be counted",
        "run on bare metal, or: sudo sysctl kernel.perf_event_paranoid=1",
    )  # fmt: skip


def _gpu() -> Finding:
    driver = ctypes.util.find_library("cuda")
    tool = shutil.which("nvidia-smi")
    name = _first_line([tool, "--query-gpu=name,driver_version", "--format=csv,noheader"])
    if tool and name:
        return Finding("GPU", "ok", f"{name} ({driver or 'driver library not found'})", data=name)
    return Finding(
        "GPU", "missing", "no NVIDIA driver" if not driver else "a driver, but no GPU answers",
        "CUDA kernels run on an emulated device: checked and counted, not timed",
        "a machine with an NVIDIA GPU; docs/cuda-without-a-gpu.md says what works without", None,
    )  # fmt: skip


def _compilers() -> Iterator[Finding]:
    for tool, (cost, remedy) in COMPILERS.items():
        version = _first_line([shutil.which(tool), "--version"])
        if version:
            yield Finding(f"compiler {tool}", "ok", version)
        else:
            yield Finding(f"compiler {tool}", "missing", "not found", cost, remedy)


def _packages() -> Iterator[Finding]:
    extras = {
        "pandas": ("report", "runs cannot be read as tables"),
        "matplotlib": ("report", "no figures and no report"),
        "jupyterlab": ("lab", "the notebooks cannot be opened"),
        "ipywidgets": ("lab", "the notebooks have no controls"),
        "numba": ("fast", "long replays take minutes in place of seconds"),
        "pycuda": ("gpu", "no CUDA kernel runs; without a GPU: make pycuda"),
    }
    for package, (extra, cost) in extras.items():
        if importlib.util.find_spec(package):
            yield Finding(f"package {package}", "ok", "installed")
        else:
            remedy = f"pip install 'colibri-lab[{extra}]'"
            yield Finding(f"package {package}", "missing", "not installed", cost, remedy)


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None


def _first_line(command: list[str | None]) -> str | None:
    """The first line that a tool prints; None where it is absent or fails."""
    program, *arguments = command
    if program is None:
        return None
    given = [program, *(argument for argument in arguments if argument)]
    try:
        done = subprocess.run(given, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip().partition("\n")[0] or None
