"""The engine's front door on the CPU."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from threading import Lock
from typing import Any

from ..cache import make_policy
from ..capacity import Capacity
from .blas import pin_blas
from .buffers import Scratch, check_memory, memory_terms, rows_a_stream
from .calls import LayerCalls
from .checks import check_counts
from .expert_cache import ExpertCache
from .layer import EngineLayer, Rows, micro_batches
from .store import ExpertStore, open_store


class Engine(LayerCalls):
    """MoE layers on the CPU: tokens grouped by expert, a BLAS product each, an expert cache.

    Use `Engine.open` and a with-block. Not for calls from several threads at once.
    """

    def __init__(
        self,
        store: ExpertStore,
        *,
        max_batch_size: int = 8,
        max_seq_len: int = 128,
        expert_cache_size: int = 4,
        cache_policy: str = "lru",
        stream_count: int = 1,
        blas_threads: int = 1,
        top_k: int | None = None,
        capacity: Capacity | None = None,
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
        check_counts(blas_threads=blas_threads)
        self.blas_threads = blas_threads
        self.memory_terms = memory_terms(
            moe, num_layers, self.num_slots, self.max_tokens, stream_count
        )
        check_memory(self.memory_terms)
        self._store, self._lock = store, Lock()
        self._layers = [
            EngineLayer(index, moe, store.router(index), self._cache(index, cache_policy))
            for index in range(num_layers)
        ]
        rows = rows_a_stream(self.max_tokens, stream_count)
        self._scratch = [Scratch.of(rows, moe) for _ in range(stream_count)]
        self._allocate_results()
        self._streams = ThreadPoolExecutor(stream_count, "colibri-stream")
        self._release_blas = pin_blas(self, blas_threads)

    def _cache(self, layer: int, policy: str) -> ExpertCache:
        return ExpertCache(self._store, layer, self.num_slots, make_policy(policy), self.stats)

    @classmethod
    def open(cls, path: str | Path, *, experts: str | Path | None = None, **options: Any) -> Engine:
        """Open a checkpoint folder, a ``.colibri`` or a ``.cbi`` file.

        experts : a container to take the experts from; routers come from the checkpoint.
        max_batch_size, max_seq_len : the largest input; scratch for it is allocated once.
        expert_cache_size : experts of each MoE layer that are held in memory, at least 1.
        cache_policy : which of them goes when another comes in.
        stream_count : micro-batches computed at the same time.
        blas_threads : of each product; set for the whole process until `close`.
        top_k, capacity : in place of the model's own, and of dropless.
        Raises FormatError, InputError, or DeviceUnavailable where it does not fit the memory.
        """
        store = open_store(path, experts)
        try:
            return cls(store, **options)
        except BaseException:
            store.close()
            raise

    def _run(self, index: int, x: Rows, out: Rows) -> None:
        layer = self._layers[index]
        planned = layer.plan(x, self.top_k, self.capacity)
        self._routing[index] = planned
        parts = micro_batches(len(x), self.stream_count)
        arguments = [
            (x, planned.assigned, part, out, scratch, self.stats, self._lock)
            for part, scratch in zip(parts, self._scratch, strict=False)
        ]
        if len(arguments) == 1:  # a lone micro-batch needs no other thread
            layer.run_micro_batch(*arguments[0])
            return
        work = [self._streams.submit(layer.run_micro_batch, *given) for given in arguments]
        try:
            for done in work:
                done.result()
        finally:
            wait(work)  # if one fails or the user interrupts: the next call uses the same scratch

    def _close(self) -> None:
        """End the streams, give BLAS its threads back, let go of the files."""
        self._streams.shutdown()
        self._release_blas()
        self._layers, self._scratch = [], []
        self._store.close()
