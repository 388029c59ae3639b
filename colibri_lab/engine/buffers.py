"""Memory that is allocated once: aligned arrays, a stream's scratch, and what it all adds up to."""

from __future__ import annotations

import resource
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..config import MoEConfig
from ..errors import DeviceUnavailable

ALIGNMENT = 64  # a cache line, and the widest vector
FLOAT = 4
GROUPS = Path("/sys/fs/cgroup")


def aligned(shape: tuple[int, ...]) -> NDArray[np.float32]:
    """An uninitialised float32 array that starts on a 64-byte border."""
    count = int(np.prod(shape, dtype=np.int64))
    raw = np.empty(count * FLOAT + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + count * FLOAT].view(np.float32).reshape(shape)


@dataclass(frozen=True)
class Scratch:
    """What one stream computes in.

    x, y : [T, H] the rows of one expert, in and out;  gate, up : [T, I].
    """

    x: NDArray[np.float32]
    y: NDArray[np.float32]
    gate: NDArray[np.float32]
    up: NDArray[np.float32]

    @classmethod
    def of(cls, rows: int, moe: MoEConfig) -> Scratch:
        wide, inner = (rows, moe.hidden_size), (rows, moe.intermediate_size)
        return cls(aligned(wide), aligned(wide), aligned(inner), aligned(inner))


def rows_a_stream(max_tokens: int, stream_count: int) -> int:
    """The largest micro-batch: no expert has more rows than it, since a token has it once."""
    return -(-max_tokens // stream_count)


def memory_terms(
    moe: MoEConfig, num_layers: int, num_slots: int, max_tokens: int, stream_count: int
) -> dict[str, int]:
    """Bytes of everything that `Engine.open` allocates, term by term."""
    hidden, inner, experts = moe.hidden_size, moe.intermediate_size, moe.num_experts
    rows = rows_a_stream(max_tokens, stream_count)
    return {
        "expert slots L*N*3*I*H*4": num_layers * num_slots * 3 * inner * hidden * FLOAT,
        "routers L*H*E*8": num_layers * hidden * experts * 8,
        "streams S*ceil(T/S)*2*(H+I)*4": stream_count * rows * 2 * (hidden + inner) * FLOAT,
        "output (L+1)*T*H*4": (num_layers + 1) * max_tokens * hidden * FLOAT,
    }


def check_memory(terms: dict[str, int]) -> None:
    """DeviceUnavailable, with the sum spelled out, where the machine has not that much left."""
    available, total = available_bytes(), sum(terms.values())
    if available is not None and total > available:
        spelled = " + ".join(f"{name} = {size:,}" for name, size in terms.items())
        raise DeviceUnavailable(
            "the engine does not fit the memory that is free",
            expected=f"at most {available:,} bytes",
            found=f"{total:,} bytes: {spelled}",
            hint="fewer expert-cache slots, or a smaller max_batch_size * max_seq_len",
        )


def available_bytes() -> int | None:
    """Memory that can still be had: of the machine, the control group and the process's own limits.

    None where the system does not say.
    """
    data = _limit_left(resource.RLIMIT_DATA, "VmData:")  # `ulimit -d`: without mapped files
    space = _limit_left(resource.RLIMIT_AS, "VmSize:")  # `ulimit -v`: with them
    found = [value for value in (_free(), _groups_left(), data, space) if value is not None]
    return max(min(found), 0) if found else None


def _free() -> int | None:
    """Free memory, caches that can be dropped included."""
    return _status("/proc/meminfo", "MemAvailable:")


def _groups_left() -> int | None:
    """The least that the control group (version 2) and those around it have left."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None
    group = next((line[3:].strip("/") for line in lines if line.startswith("0::")), "")
    folders = [GROUPS / group, *(GROUPS / group).parents]
    inside = [folder for folder in folders if folder.is_relative_to(GROUPS)]
    left = [value for value in map(group_left, inside) if value is not None]
    return min(left, default=None)


def group_left(folder: Path) -> int | None:
    """What a control group allows, less what it uses and could not drop."""
    try:
        limit = (folder / "memory.max").read_text().strip()
        used = int((folder / "memory.current").read_text())
        lines = (folder / "memory.stat").read_text().splitlines()
        counts = {name: int(value) for name, value in map(str.split, lines)}
        # Pages of files, such as the mapped weights, make room for what is allocated.
        files = counts["active_file"] + counts["inactive_file"]
        return None if limit == "max" else int(limit) - used + files
    except (OSError, ValueError, KeyError):
        return None


def _limit_left(limit: int, field: str) -> int | None:
    most, _ = resource.getrlimit(limit)
    if most == resource.RLIM_INFINITY:
        return None
    return most - (_status("/proc/self/status", field) or 0)


def _status(file: str, field: str) -> int | None:
    """Bytes that a line "field: N kB" of a system file tells."""
    try:
        lines = Path(file).read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(field)), None)
