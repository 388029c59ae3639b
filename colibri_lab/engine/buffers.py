"""Memory that is allocated once: aligned arrays, a stream's scratch, and what it all adds up to."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..config import MoEConfig
from ..errors import DeviceUnavailable

ALIGNMENT = 64  # a cache line, and the widest vector
FLOAT = 4


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


def memory_terms(
    moe: MoEConfig, num_layers: int, slots: int, max_tokens: int, streams: int
) -> dict[str, int]:
    """Bytes of everything that `Engine.open` allocates, term by term."""
    hidden, inner, experts = moe.hidden_size, moe.intermediate_size, moe.num_experts
    return {
        "expert slots L*N*3*I*H*4": num_layers * slots * 3 * inner * hidden * FLOAT,
        "routers L*H*E*8": num_layers * hidden * experts * 8,
        "streams S*T*2*(H+I)*4": streams * max_tokens * 2 * (hidden + inner) * FLOAT,
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
    """Memory that can still be had without swapping; None where the system does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:  # noqa: PTH123 - a system file
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None
