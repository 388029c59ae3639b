"""What the engine takes of a device's memory, added up before any of it is allocated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...config import MoEConfig
from ...errors import DeviceUnavailable

FLOAT, DOUBLE, INT = 4, 8, 4


def device_terms(
    moe: MoEConfig,
    num_layers: int,
    num_slots: int,
    rows: int,
    top_k: int,
    stream_count: int,
    bytes_each: int,
) -> dict[str, int]:
    """Bytes, term by term.

    rows : tokens of the largest micro-batch.   bytes_each : of a stored value, 4 or 2.
    """
    hidden, inner, experts = moe.hidden_size, moe.intermediate_size, moe.num_experts
    pairs = rows * top_k
    return {
        f"expert slots L*N*3*I*H*{bytes_each}": num_layers
        * num_slots
        * 3
        * inner
        * hidden
        * bytes_each,
        "routers L*H*E*4": num_layers * hidden * experts * FLOAT,
        "tokens S*T*H*(8+s)": stream_count * rows * hidden * (2 * FLOAT + bytes_each),
        "rows S*T*K*(I+H)*s": stream_count * pairs * (inner + hidden) * bytes_each,
        "routing S*T*(8*E+20*K)": stream_count * (rows * experts * DOUBLE + 5 * pairs * INT),
        "experts S*(3*E+1)*4": stream_count * (3 * experts + 1) * INT,
    }


def check_device_memory(terms: Mapping[str, int], free_bytes: int, device: str) -> None:
    """DeviceUnavailable, with the sum spelled out, where the device has not that much left."""
    total = sum(terms.values())
    if total > free_bytes:
        spelled = " + ".join(f"{name} = {size:,}" for name, size in terms.items())
        raise DeviceUnavailable(
            f"the engine does not fit the memory of {device}",
            expected=f"at most {free_bytes:,} bytes",
            found=f"{total:,} bytes: {spelled}",
            hint="fewer expert-cache slots, float16, or a smaller max_batch_size * max_seq_len",
        )


class Pool:
    """Device memory and pinned host memory, allocated once and freed together."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver
        self._device: list[Any] = []

    def device(self, num_bytes: int) -> Any:
        memory = self._driver.mem_alloc(max(int(num_bytes), 16))
        self._device.append(memory)
        return memory

    def pinned(self, shape: Any, dtype: Any) -> Any:
        """A host array that copies need not wait for."""
        return self._driver.pagelocked_empty(shape, dtype)

    def free(self) -> None:
        for memory in self._device:
            memory.free()
        self._device.clear()
