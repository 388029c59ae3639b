"""The engine's front door on a CUDA device."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from ...cache import make_policy
from ...capacity import Capacity, apply_capacity
from ...config import RoutingRule
from ...errors import InputError
from ...kernels.catalog import DTYPES
from ...kernels.device import Device, open_device, own_errors
from ...reference import Routing
from ..buffers import rows_a_stream
from ..calls import LayerCalls
from ..layer import LayerRouting, Rows, micro_batches
from ..store import ExpertStore, open_store
from .memory import Pool, check_device_memory, device_terms
from .slots import ExpertSlots
from .stages import Kernels, Stages, StreamMemory


class CudaEngine(LayerCalls):
    """MoE layers on the first GPU, or without one on the emulated driver, where times mean nothing.

    The device routes; the host applies the capacity policy to the whole batch; then micro-batches
    run on streams of their own, experts being copied into slots as they are needed. Memory is
    allocated once. Use `CudaEngine.open` and a with-block, from one thread.
    """

    def __init__(
        self,
        store: ExpertStore,
        device: Device,
        *,
        max_batch_size: int = 8,
        max_seq_len: int = 128,
        expert_cache_size: int = 4,
        cache_policy: str = "lru",
        stream_count: int = 1,
        top_k: int | None = None,
        capacity: Capacity | None = None,
        dtype: str = "float32",
    ) -> None:
        moe, num_layers = store.moe, store.num_layers
        super().__init__(
            moe,
            num_layers,
            max_batch_size=max_batch_size,
            max_seq_len=max_seq_len,
            expert_cache_size=expert_cache_size,
            stream_count=stream_count,
            top_k=top_k,
            capacity=capacity,
        )
        if dtype not in DTYPES:
            raise InputError("dtype is not known", expected=" or ".join(DTYPES), found=dtype)
        _check_rule(moe.rule)
        self._store, self._device, self.dtype = store, device, dtype
        self.emulated = device.emulated
        self._moe, driver = moe, device.driver
        rows = rows_a_stream(self.max_tokens, stream_count)
        self.memory_terms = device_terms(
            moe, num_layers, self.num_slots, rows, self.top_k, stream_count,
            np.dtype(DTYPES[dtype]).itemsize,
        )  # fmt: skip
        check_device_memory(self.memory_terms, driver.mem_get_info()[0], device.name)
        self._pool = Pool(driver)
        with own_errors(driver):
            self._allocate(cache_policy)

    def _allocate(self, cache_policy: str) -> None:
        """Everything on the device and the streams' own memory; nothing is allocated later."""
        store, device, moe, dtype = self._store, self._device, self._moe, self.dtype
        driver, rows = device.driver, rows_a_stream(self.max_tokens, self.stream_count)
        self._stages = Stages(device, Kernels(device, dtype), moe, self.top_k)
        self._routers = [self._router(layer) for layer in range(self.num_layers)]
        self._slots = [
            ExpertSlots(
                store, layer, self.num_slots, make_policy(cache_policy), self.stats, self._pool,
                driver, DTYPES[dtype],
            )
            for layer in range(self.num_layers)
        ]  # fmt: skip
        rounds = -(-moe.num_experts // self.num_slots)
        self._memory = [
            StreamMemory.of(
                driver, self._pool, number, rows, moe, self.top_k, DTYPES[dtype], rounds
            )
            for number in range(self.stream_count)
        ]
        self._allocate_results()

    def _router(self, layer: int) -> Any:
        router = self._store.router(layer)
        if router.bias is not None or router.correction is not None:
            raise InputError(
                "the cuda backend routes by router products alone",
                expected="a router without bias and correction",
                found=f"one with them in MoE layer {layer}",
                hint="take the cpu backend",
            )
        weight = np.ascontiguousarray(router.weight, np.float32)
        memory = self._pool.device(weight.nbytes)
        self._device.driver.memcpy_htod(memory, weight)
        return memory

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        experts: str | Path | None = None,
        gpu: str | None = None,
        **options: Any,
    ) -> CudaEngine:
        """Open a checkpoint folder, a ``.colibri`` or a ``.cbi`` file.

        gpu : which GPU is emulated, where there is none; None: as `kernels.device.open_device`.
          dtype : float32 or float16, of what is
        stored on the device; sums are float32.   Other options as of `Engine.open`.
        Raises FormatError, InputError, or DeviceUnavailable where there is no device, or where it
        is too small.
        """
        with ExitStack() as stack:
            store = stack.enter_context(_Closing(open_store(path, experts)))
            device = stack.enter_context(open_device(gpu))
            engine = cls(store, device, **options)
            engine._held = stack.pop_all()
            return engine

    _held: ExitStack | None = None

    @property
    def device_name(self) -> str:
        return self._device.name

    def _run(self, index: int, x: Rows, out: Rows) -> None:
        with own_errors(self._device.driver):
            self._run_parts(index, x, out)

    def _run_parts(self, index: int, x: Rows, out: Rows) -> None:
        parts = list(zip(micro_batches(len(x), self.stream_count), self._memory, strict=False))
        for tokens, memory in parts:
            self._stages.route(memory, x[tokens], self._routers[index])
        self._wait()
        routing = self._routed_by_device(parts)
        assigned = apply_capacity(
            routing.topk_ids, routing.topk_weights, routing.choice_scores, self.capacity
        )
        kept = assigned.topk_ids[assigned.topk_ids >= 0]
        load = np.bincount(kept, minlength=self._moe.num_experts)
        self._routing[index] = LayerRouting(routing, assigned, load)
        for tokens, memory in parts:
            ids, weights = assigned.topk_ids[tokens], assigned.topk_weights[tokens]
            self._stages.compute(memory, ids, weights, self._slots[index])
        self._wait()
        for tokens, memory in parts:
            out[tokens] = memory.host["out"][: tokens.stop - tokens.start]
        self.stats.tokens[index] += load
        self.stats.calls[index] += load > 0

    def _routed_by_device(self, parts: list[tuple[slice, StreamMemory]]) -> Routing:
        """What the streams' routers chose, of the whole batch."""

        def joined(name: str) -> Any:
            rows = [memory.host[name][: each.stop - each.start] for each, memory in parts]
            empty = self._memory[0].host[name][:0]
            return np.concatenate([empty, *rows])

        logits = joined("logits")
        weights = joined("weights") * np.float32(self._moe.rule.scaling)
        return Routing(joined("ids"), weights, logits, logits)

    def _wait(self) -> None:
        self._device.driver.Context.synchronize()

    def _close(self) -> None:
        """Free the device's memory, then leave its context and the files."""
        try:
            self._wait()
            self._pool.free()
        finally:
            self._memory, self._slots, self._routers = [], [], []
            if self._held is not None:
                self._held.close()


class _Closing:
    """An expert store as a context manager."""

    def __init__(self, store: ExpertStore) -> None:
        self._store = store

    def __enter__(self) -> ExpertStore:
        return self._store

    def __exit__(self, *_: object) -> None:
        self._store.close()


def _check_rule(rule: RoutingRule) -> None:
    if rule.scoring != "softmax" or rule.num_groups > 1:
        raise InputError(
            "the cuda backend does not route so",
            expected="softmax scores without groups",
            found=f"{rule.scoring} scores, {rule.num_groups} groups",
            hint="take the cpu backend",
        )
