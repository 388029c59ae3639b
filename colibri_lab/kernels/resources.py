"""What the real compiler makes of the kernels: registers, spills, shared memory, occupancy.

nvcc needs no GPU. It is looked for on the PATH, and among the packages ``nvidia-cuda-nvcc`` and
``nvidia-nvvm`` from PyPI (the extra ``nvcc``).
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import DeviceUnavailable, InputError, WorkFailed
from .catalog import FOLDER, MACROS, Kernel
from .geometry import threads_of

# Of a multiprocessor: threads, blocks, registers, bytes of shared memory.   Source: NVIDIA, CUDA
# C++ Programming Guide 13.0, "Technical specifications per compute capability".
ARCHITECTURES = {
    "sm_75": (1024, 16, 65536, 65536),
    "sm_80": (2048, 32, 65536, 167936),
    "sm_86": (1536, 16, 65536, 102400),
    "sm_89": (1536, 24, 65536, 102400),
    "sm_90": (2048, 32, 65536, 233472),
}
REGISTER_UNIT = 256  # of a warp
RESERVED_SHARED = 1024  # bytes that the system takes of each block's, from 8.0 on
ENTRY = re.compile(r"Compiling entry function '(\w+)'")
SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers(?:.*?(\d+) bytes smem)?")


@dataclass(frozen=True)
class Resources:
    """Of one kernel, as compiled.

    registers : of a thread.   spill_bytes : stores and loads of what did not fit them.
    shared_bytes : static, of a block.   threads : a block, as launched by default.
    occupancy : of the multiprocessor's threads, those that can be resident, without dynamic shared
    memory.
    """

    entry: str
    dtype: str
    arch: str
    registers: int
    spill_bytes: int
    shared_bytes: int
    threads: int
    occupancy: float


def resources(kernels: Sequence[Kernel], architectures: Sequence[str]) -> Iterator[Resources]:
    """Compile each kernel's file for each storage dtype and architecture.

    Raises InputError for an architecture that is not known, DeviceUnavailable without nvcc,
    WorkFailed where it fails.
    """
    unknown = [name for name in architectures if name not in ARCHITECTURES]
    if unknown:
        raise InputError(
            "architecture is not known", expected=", ".join(ARCHITECTURES), found=", ".join(unknown)
        )
    command = find_nvcc()
    for arch in architectures:
        seen: dict[tuple[str, str], dict[str, tuple[int, int, int]]] = {}
        for kernel in kernels:
            for dtype in kernel.tolerance:
                key = (kernel.file, dtype)
                if key not in seen:
                    seen[key] = compiled(command, kernel.path, dtype, arch)
                registers, spills, shared = seen[key][kernel.entry]
                threads = 32 if kernel.variant == "wmma" else threads_of(kernel.entry)
                yield Resources(
                    kernel.entry, dtype, arch, registers, spills, shared, threads,
                    occupancy(arch, threads, registers, shared),
                )  # fmt: skip


def compiled(
    command: Sequence[str], path: Path, dtype: str, arch: str
) -> dict[str, tuple[int, int, int]]:
    """Entry -> registers, spilled bytes, static shared bytes, by what ptxas says."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = [
            *command, "-cubin", f"-arch={arch}", "-Xptxas", "-v", f"-I{FOLDER}", *MACROS[dtype],
            "-o", str(Path(folder) / "kernel.cubin"), str(path),
        ]  # fmt: skip
        done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    if done.returncode:
        raise WorkFailed(
            f"nvcc does not compile a kernel for {arch}", path=path, found=done.stderr[-2000:]
        )
    return parse(done.stderr)


def parse(text: str) -> dict[str, tuple[int, int, int]]:
    """What `ptxas -v` printed: entry -> registers, spilled bytes, static shared bytes."""
    found: dict[str, tuple[int, int, int]] = {}
    entry, spills = "", 0
    for line in text.splitlines():
        if match := ENTRY.search(line):
            entry, spills = match[1], 0
        elif match := SPILLS.search(line):
            spills = int(match[1]) + int(match[2])
        elif match := USED.search(line):
            found[entry] = (int(match[1]), spills, int(match[2] or 0))
    return found


def occupancy(arch: str, threads: int, registers: int, shared_bytes: int) -> float:
    """Share of a multiprocessor's threads that blocks of this kind can fill.

    Source: NVIDIA's occupancy calculator: whole blocks, warps' registers in units of 256.
    """
    most_threads, most_blocks, most_registers, most_shared = ARCHITECTURES[arch]
    warps = -(-threads // 32)
    warp_registers = -(-registers * 32 // REGISTER_UNIT) * REGISTER_UNIT
    reserved = 0 if arch == "sm_75" else RESERVED_SHARED
    blocks = min(
        most_blocks,
        most_threads // (warps * 32),
        most_registers // warp_registers // warps if registers else most_blocks,
        most_shared // (shared_bytes + reserved) if shared_bytes + reserved else most_blocks,
    )
    return blocks * warps * 32 / most_threads


def find_nvcc() -> list[str]:
    """The command; DeviceUnavailable where there is none."""
    root = _package_root()
    if root is not None:
        return [str(root / "bin" / "nvcc"), f"-I{root / 'include'}"]
    on_path = shutil.which("nvcc", path=_plain_path())
    if on_path is None:
        raise DeviceUnavailable(
            "nvcc is not installed", hint="pip install 'colibri-lab[nvcc]'; it needs no GPU"
        )
    return [on_path]


def _package_root() -> Path | None:
    spec = importlib.util.find_spec("nvidia")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        for found in sorted(Path(place).glob("*/bin/nvcc")):
            return found.parents[1]
    return None


def _plain_path() -> str:
    """The PATH without the emulated compiler, which comes first while emulation is on."""
    folders = os.environ.get("PATH", "").split(os.pathsep)
    return os.pathsep.join(folder for folder in folders if "colibri_lab" not in folder)
