"""The engine's front door."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..cache import make_policy
from ..capacity import Capacity, CapacityResult
from ..config import check_top_k
from ..errors import ColibriError, InputError, ShapeError
from ..reference.weights import Array
from .blas import pin_blas
from .buffers import Scratch, aligned, check_memory, memory_terms, rows_a_stream
from .checks import (
    check_array,
    check_capacity,
    check_counts,
    check_finite,
    check_lengths,
    check_out,
)
from .expert_cache import ExpertCache
from .layer import EngineLayer, LayerRouting, Rows, micro_batches
from .stats import EngineStats
from .store import ExpertStore, open_store


class Engine:
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
        top_k = check_top_k(moe.top_k if top_k is None else top_k, moe.num_experts)
        check_counts(
            max_batch_size=max_batch_size,
            max_seq_len=max_seq_len,
            expert_cache_size=expert_cache_size,
            stream_count=stream_count,
            blas_threads=blas_threads,
            top_k=top_k,
        )
        self.max_batch_size, self.max_seq_len = max_batch_size, max_seq_len
        self.stream_count, self.blas_threads = stream_count, blas_threads
        self.top_k, self.capacity = top_k, check_capacity(capacity or Capacity.none())
        self.num_layers, self.hidden_size = num_layers, moe.hidden_size
        self.num_slots = min(expert_cache_size, moe.num_experts)
        max_tokens = max_batch_size * max_seq_len
        self.memory_terms = memory_terms(moe, num_layers, self.num_slots, max_tokens, stream_count)
        check_memory(self.memory_terms)
        self.stats = EngineStats.zeros(num_layers, moe.num_experts)
        self._store, self._lock = store, Lock()
        self._layers = [
            EngineLayer(index, moe, store.router(index), self._cache(index, cache_policy))
            for index in range(num_layers)
        ]
        rows = rows_a_stream(max_tokens, stream_count)
        self._scratch = [Scratch.of(rows, moe) for _ in range(stream_count)]
        self._results = aligned((num_layers * max_tokens * moe.hidden_size,))
        self._step = aligned((max_tokens, moe.hidden_size))
        self._routing: dict[int, LayerRouting] = {}
        self._input: Rows | None = None
        self._output: Rows | None = None
        self._streams = ThreadPoolExecutor(stream_count, "colibri-stream")
        self._release_blas = pin_blas(self, blas_threads)
        self._closed = False

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

    def set_input(self, hidden_states: Array, lengths: Sequence[int]) -> None:
        """Give the next call its input; the array is used as it is, without a copy.

        hidden_states : [sum(lengths), H] float32, run through every MoE layer in turn, x += moe(x);
            or [L, sum(lengths), H], each layer's own recorded input, run independently.
        lengths : tokens a sequence, at most max_batch_size of them, each 1 to max_seq_len.
        Raises ShapeError; nothing is ever cut short.
        """
        self._check_open()
        self._input = self._output = None  # a refused input must not leave the one before it
        wide = (check_lengths(lengths, self.max_batch_size, self.max_seq_len), self.hidden_size)
        check_array("hidden_states", hidden_states, wide, (self.num_layers, *wide))
        check_finite(hidden_states)
        self._input = hidden_states

    def infer(self, out: Rows | None = None) -> None:
        """Run every MoE layer on the input.

        out : where the result goes, of the input's shape, float32; None: the engine's own memory,
            which the next call overwrites.
        """
        self._check_open()
        x = self._input
        if x is None:
            raise ColibriError("there is no input yet", hint="call set_input first")
        self._output = None  # a call that fails must not leave the result of the one before it
        if out is None:
            out = self._results[: x.size].reshape(x.shape)
        check_out(out, x)
        if x.ndim == 3:
            for layer in range(self.num_layers):
                self._run(layer, x[layer], out[layer])
        else:
            self._run_in_turn(x, out)
        self._output = out

    def _run_in_turn(self, x: Rows, out: Rows) -> None:
        step = self._step[: len(x)]
        out[...] = x
        for layer in range(self.num_layers):
            self._run(layer, out, step)
            out += step

    def get_output(self) -> Rows:
        """The last call's result, of its input's shape; a view that the next call overwrites."""
        self._check_open()
        if self._output is None:
            raise ColibriError("there is no output yet", hint="call infer first")
        return self._output

    def run_layer(self, layer: int, hidden_states: Array, out: Rows | None = None) -> Rows:
        """One MoE layer, without residual; what `Decoder.forward(moe=…)` takes.

        hidden_states : [T, H] float, at most max_batch_size * max_seq_len tokens; used without a
            copy if it is contiguous float32.
        out : [T, H] float32, where the result goes; None: a new array.
        Returns out.
        """
        self._check_open()
        if layer not in range(self.num_layers):
            raise InputError(
                "layer is out of range", expected=f"0 to {self.num_layers - 1}", found=layer
            )
        x = np.ascontiguousarray(hidden_states, np.float32)
        most = self.max_batch_size * self.max_seq_len
        if x.ndim != 2 or x.shape[1] != self.hidden_size or len(x) > most:
            raise ShapeError(
                "hidden_states do not fit the engine",
                expected=f"[T, {self.hidden_size}] with T at most {most}",
                found=list(x.shape),
            )
        check_finite(x)
        out = np.empty_like(x) if out is None else out
        check_out(out, x)
        self._run(layer, x, out)
        return out

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

    def assigned(self, layer: int) -> CapacityResult:
        """What the last call of an MoE layer routed; `Decoder.forward(routed=…)` takes this."""
        return self._routed(layer).assigned

    @property
    def routing(self) -> dict[int, LayerRouting]:
        """By MoE layer, what its last call routed."""
        return self._routing

    @property
    def expert_load(self) -> NDArray[np.int64]:
        """[L, E] tokens that each expert computed in the last call."""
        return np.stack([self._routed(layer).expert_load for layer in range(self.num_layers)])

    def _routed(self, layer: int) -> LayerRouting:
        if layer not in self._routing:
            raise ColibriError(
                f"MoE layer {layer} has routed nothing yet", hint="call infer or run_layer first"
            )
        return self._routing[layer]

    def reset_stats(self) -> None:
        """Count from zero again; what is resident stays."""
        self.stats.reset()

    def _check_open(self) -> None:
        if self._closed:
            raise ColibriError("the engine is closed", hint="open it anew")

    def close(self) -> None:
        """End the streams, give BLAS its threads back, let go of memory and files.  Twice is fine.

        Counters and routing can still be read, and so can a result that was taken before.
        """
        if not self._closed:
            self._closed = True
            self._streams.shutdown()
            self._release_blas()
            self._layers, self._scratch = [], []
            self._results = self._step = aligned((0,))
            self._input = self._output = None
            self._store.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
