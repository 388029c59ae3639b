"""The five stages of a micro-batch on one stream: copy in, route, dispatch, experts, aggregate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...config import MoEConfig
from ...kernels import Kernel, find
from ...kernels.device import Device
from ...kernels.geometry import threads_of
from ..layer import Rows
from .memory import Pool
from .slots import ExpertSlots

ENTRIES = (
    "route_fused", "dispatch_count", "dispatch_scan", "dispatch_scatter_stable",
    "fused_swiglu_tiled", "expert_gemm_tiled", "aggregate_invert", "aggregate_gather",
)  # fmt: skip
NULL = np.uintp(0)


class Kernels:
    """The engine's kernels, compiled for one storage dtype, launched by entry and sizes."""

    def __init__(self, device: Device, dtype: str) -> None:
        self._device = device
        self._kernels: dict[str, Kernel] = {kernel.entry: kernel for kernel in find(ENTRIES)}
        self._functions: dict[str, Any] = {
            entry: device.function(kernel, dtype if dtype in kernel.tolerance else "float32")
            for entry, kernel in self._kernels.items()
        }

    def __call__(self, entry: str, stream: Any, sizes: dict[str, int], *arguments: Any) -> None:
        """Queue one kernel.   sizes : by name, as the kernel's geometry wants them."""
        threads = threads_of(entry, self._device.capability)
        launch = self._kernels[entry].geometry(sizes, threads)
        if not launch.is_empty:
            given = [np.int32(a) if isinstance(a, int) else a for a in arguments]
            self._functions[entry](
                *given, grid=launch.grid, block=launch.block, shared=launch.shared, stream=stream
            )


@dataclass
class StreamMemory:
    """One stream's own memory, on the device and pinned on the host, for `rows` tokens."""

    stream: Any
    number: int
    device: dict[str, Any]
    host: dict[str, NDArray[Any]]
    done: Any = None

    @classmethod
    def of(
        cls, driver: Any, pool: Pool, number: int, rows: int, moe: MoEConfig, top_k: int,
        dtype: Any, rounds: int,
    ) -> StreamMemory:  # fmt: skip
        hidden, inner, experts = moe.hidden_size, moe.intermediate_size, moe.num_experts
        pairs, size = rows * top_k, np.dtype(dtype).itemsize
        device_bytes = {
            "x": rows * hidden * 4, "stored": rows * hidden * size, "out": rows * hidden * 4,
            "ids": pairs * 4, "weights": pairs * 4, "logits": rows * experts * 8,
            "counts": experts * 4, "offsets": (experts + 1) * 4, "slots": experts * 4,
            "tokens": pairs * 4, "places": pairs * 4, "row_of": pairs * 4,
            "h": pairs * inner * size, "y": pairs * hidden * size,
        }  # fmt: skip
        shapes: dict[str, tuple[Any, Any]] = {
            "x": ((rows, hidden), np.float32), "stored": ((rows, hidden), dtype),
            "out": ((rows, hidden), np.float32), "ids": ((rows, top_k), np.int32),
            "weights": ((rows, top_k), np.float32), "logits": ((rows, experts), np.float64),
            "slots": ((rounds, experts), np.int32),
        }  # fmt: skip
        return cls(
            driver.Stream(),
            number,
            {name: pool.device(count) for name, count in device_bytes.items()},
            {name: pool.pinned(*shape) for name, shape in shapes.items()},
        )


class Stages:
    """Queues a micro-batch's stages on its stream; nothing here waits for the device."""

    def __init__(self, device: Device, kernels: Kernels, moe: MoEConfig, top_k: int) -> None:
        self._driver, self._kernels = device.driver, kernels
        self._moe, self._top_k = moe, top_k
        self._renormalize = int(moe.rule.renormalize or moe.rule.order == "topk_softmax")

    def route(self, memory: StreamMemory, x: Rows, router: Any) -> None:
        """Copy tokens in, route them, and copy the choice back to the host."""
        count, hidden, experts = len(x), self._moe.hidden_size, self._moe.num_experts
        self._send(memory, "x", x)
        self._send(memory, "stored", x)
        sizes = {"num_tokens": count, "hidden_size": hidden, "num_experts": experts}
        d = memory.device
        self._kernels(
            "route_fused", memory.stream, sizes,
            d["x"], router, d["ids"], d["weights"], d["logits"],
            count, hidden, experts, self._top_k, self._renormalize,
        )  # fmt: skip
        for name in ("ids", "weights", "logits"):
            self._driver.memcpy_dtoh_async(memory.host[name][:count], d[name], memory.stream)

    def compute(
        self,
        memory: StreamMemory,
        topk_ids: NDArray[np.int32],
        topk_weights: NDArray[Any],
        slots: ExpertSlots,
    ) -> None:
        """Dispatch what was assigned, run its experts, add up, and copy the result back."""
        count = len(topk_ids)
        self._send(memory, "ids", topk_ids)
        self._send(memory, "weights", topk_weights)
        self._dispatch(memory, count)
        active = np.unique(topk_ids[topk_ids >= 0]).tolist()
        for number, experts in enumerate(slots.rounds(active)):
            self._experts(memory, count, experts, slots, memory.host["slots"][number])
        self._aggregate(memory, count)
        self._driver.memcpy_dtoh_async(
            memory.host["out"][:count], memory.device["out"], memory.stream
        )

    def _dispatch(self, memory: StreamMemory, count: int) -> None:
        d, stream, experts = memory.device, memory.stream, self._moe.num_experts
        pairs = count * self._top_k
        sizes = {"num_assignments": pairs, "num_experts": experts}
        self._driver.memset_d32_async(d["counts"], 0, experts, stream)
        self._kernels("dispatch_count", stream, sizes, d["ids"], d["counts"], pairs, experts)
        self._kernels("dispatch_scan", stream, sizes, d["counts"], d["offsets"], experts)
        self._kernels(
            "dispatch_scatter_stable", stream, sizes,
            d["ids"], d["offsets"], d["tokens"], d["places"], pairs, self._top_k,
        )  # fmt: skip

    def _experts(
        self,
        memory: StreamMemory,
        count: int,
        experts: Sequence[int],
        slots: ExpertSlots,
        table: NDArray[np.int32],
    ) -> None:
        """Gate, up and SiLU in one kernel, down in another, for the experts of one round."""
        d, stream, all_experts = memory.device, memory.stream, self._moe.num_experts
        hidden, inner = self._moe.hidden_size, self._moe.intermediate_size
        slots.acquire(experts, stream, table)
        self._driver.memcpy_htod_async(d["slots"], table, stream)
        sizes = {
            "num_rows": count * self._top_k, "num_experts": all_experts,
            "intermediate_size": inner, "outer": hidden,
        }  # fmt: skip
        self._kernels(
            "fused_swiglu_tiled", stream, sizes,
            d["stored"], d["tokens"], d["offsets"], d["slots"], slots.gate, slots.up, d["h"],
            all_experts, hidden, inner,
        )  # fmt: skip
        self._kernels(
            "expert_gemm_tiled", stream, sizes,
            d["h"], NULL, d["offsets"], d["slots"], slots.down, d["y"],
            all_experts, inner, hidden,
        )  # fmt: skip
        slots.release(experts, stream, memory.number)

    def _aggregate(self, memory: StreamMemory, count: int) -> None:
        d, stream, hidden = memory.device, memory.stream, self._moe.hidden_size
        pairs = count * self._top_k
        # The last offset says how many rows there are.
        rows = int(d["offsets"]) + 4 * self._moe.num_experts
        self._driver.memset_d32_async(d["row_of"], 0xFFFFFFFF, pairs, stream)
        self._kernels(
            "aggregate_invert", stream, {"num_rows": pairs},
            d["tokens"], d["places"], np.uintp(rows), d["row_of"], self._top_k,
        )  # fmt: skip
        self._kernels(
            "aggregate_gather", stream, {"num_rows": count, "hidden_size": hidden},
            d["y"], d["row_of"], d["weights"], d["out"], hidden, self._top_k,
        )  # fmt: skip

    def _send(self, memory: StreamMemory, name: str, values: NDArray[Any]) -> None:
        staged = memory.host[name][: len(values)]
        staged[...] = values
        self._driver.memcpy_htod_async(memory.device[name], staged, memory.stream)
