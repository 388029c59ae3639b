"""The engine's front door."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ..cache import make_policy
from ..capacity import Capacity, CapacityResult
from ..config import check_top_k
from ..errors import ColibriError, InputError, ShapeError
from ..reference.weights import Array
from .buffers import Scratch, aligned, check_memory, memory_terms
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
        for name, value in {
            "max_batch_size": max_batch_size,
            "max_seq_len": max_seq_len,
            "expert_cache_size": expert_cache_size,
            "stream_count": stream_count,
            "blas_threads": blas_threads,
        }.items():
            if value < 1:
                raise InputError(f"{name} must be positive", expected="1 or more", found=value)
        self.max_batch_size, self.max_seq_len = max_batch_size, max_seq_len
        self.stream_count, self.blas_threads = stream_count, blas_threads
        self.top_k = check_top_k(moe.top_k if top_k is None else top_k, moe.num_experts)
        self.capacity = capacity or Capacity.none()
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
        self._scratch = [Scratch.of(max_tokens, moe) for _ in range(stream_count)]
        self._results = aligned((num_layers, max_tokens, moe.hidden_size))
        self._step = aligned((max_tokens, moe.hidden_size))
        self._routing: dict[int, LayerRouting] = {}
        self._input: Rows | None = None
        self._output: Rows | None = None
        self._streams = ThreadPoolExecutor(stream_count, "colibri-stream")
        self._blas = threadpool_limits(blas_threads, user_api="blas")
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
        num_tokens = self._check_lengths(lengths)
        self._check_array("hidden_states", hidden_states, num_tokens)
        self._input, self._output = hidden_states, None

    def infer(self, out: Rows | None = None) -> None:
        """Run every MoE layer on the input.

        out : where the result goes, of the input's shape, float32; None: the engine's own memory,
            which the next call overwrites.
        """
        self._check_open()
        x = self._input
        if x is None:
            raise ColibriError("there is no input yet", hint="call set_input first")
        if out is None:
            results = self._results[: len(x)] if x.ndim == 3 else self._results[0]
            out = results[..., : x.shape[-2], :]
        else:
            self._check_array("out", out, x.shape[-2])
            if out.shape != x.shape:
                raise ShapeError("out has a wrong shape", expected=x.shape, found=out.shape)
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

        hidden_states : [T, H] float, at most max_batch_size * max_seq_len tokens.
        Returns [T, H] float32.
        """
        self._check_open()
        if not 0 <= layer < self.num_layers:
            raise InputError(
                "layer is out of range", expected=f"0 to {self.num_layers - 1}", found=layer
            )
        x = np.ascontiguousarray(hidden_states, np.float32)
        self._check_array("hidden_states", x, len(x))
        most = self.max_batch_size * self.max_seq_len
        if x.ndim != 2 or len(x) > most:
            raise ShapeError(
                "hidden_states do not fit the engine",
                expected=f"[T, {self.hidden_size}] with T at most {most}",
                found=list(x.shape),
            )
        out = np.empty_like(x) if out is None else out
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
        wait(work)  # all of them, even if one fails: the next call uses the same scratch
        for done in work:
            done.result()

    def assigned(self, layer: int) -> CapacityResult:
        """What the last call of an MoE layer routed; `Decoder.forward(routed=…)` takes this."""
        return self._routing[layer].assigned

    @property
    def routing(self) -> dict[int, LayerRouting]:
        """By MoE layer, what its last call routed."""
        return self._routing

    @property
    def expert_load(self) -> NDArray[np.int64]:
        """[L, E] tokens that each expert computed in the last call."""
        return np.stack([self._routing[layer].expert_load for layer in range(self.num_layers)])

    def reset_stats(self) -> None:
        """Count from zero again; what is resident stays."""
        self.stats.reset()

    def _check_lengths(self, lengths: Sequence[int]) -> int:
        if len(lengths) > self.max_batch_size:
            raise ShapeError(
                "the batch is over max_batch_size",
                expected=f"at most {self.max_batch_size} lengths",
                found=len(lengths),
                hint="open the engine with a larger max_batch_size",
            )
        wrong = [int(length) for length in lengths if not 1 <= length <= self.max_seq_len]
        if wrong:
            raise ShapeError(
                "a length is out of range", expected=f"1 to {self.max_seq_len}", found=wrong[0]
            )
        return int(sum(lengths))

    def _check_array(self, name: str, array: Array, num_tokens: int) -> None:
        shapes = [(num_tokens, self.hidden_size), (self.num_layers, num_tokens, self.hidden_size)]
        if array.shape not in shapes:
            raise ShapeError(
                f"{name} has a wrong shape",
                expected=" or ".join(map(str, shapes)),
                found=array.shape,
            )
        if array.dtype != np.float32 or not array.flags.c_contiguous:
            raise ShapeError(
                f"{name} must be contiguous float32",
                expected="C-contiguous float32",
                found=f"{array.dtype}, strides {array.strides}",
                hint="numpy.ascontiguousarray(x, numpy.float32)",
            )
        if name == "hidden_states" and not np.isfinite(array).all():
            raise InputError(
                "hidden_states have values that are not finite",
                expected="finite values",
                found=f"{np.count_nonzero(~np.isfinite(array))} NaN or infinity",
            )

    def _check_open(self) -> None:
        if self._closed:
            raise ColibriError("the engine is closed", hint="open it anew")

    def close(self) -> None:
        """End the streams, give the BLAS its threads back, unmap the weights.  Twice is fine."""
        if not self._closed:
            self._closed = True
            self._streams.shutdown()
            self._blas.restore_original_limits()
            self._store.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
