"""What every engine takes and gives back: input, layers, output, and what was routed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ..capacity import Capacity, CapacityResult
from ..config import MoEConfig, check_top_k
from ..errors import ColibriError, InputError, ShapeError
from ..reference.weights import Array
from .buffers import aligned
from .checks import (
    check_array,
    check_capacity,
    check_counts,
    check_finite,
    check_lengths,
    check_out,
)
from .layer import LayerRouting, Rows
from .stats import EngineStats


class LayerCalls(ABC):
    """MoE layers behind one interface; a device's engine says how one layer is run.

    num_slots : experts of each layer that can be resident.   stats : counters an expert.
    emulated : no device computes here that its times would be of.
    """

    emulated = False

    def __init__(
        self,
        moe: MoEConfig,
        num_layers: int,
        *,
        max_batch_size: int,
        max_seq_len: int,
        expert_cache_size: int,
        stream_count: int,
        top_k: int | None,
        capacity: Capacity | None,
    ) -> None:
        top_k = check_top_k(moe.top_k if top_k is None else top_k, moe.num_experts)
        check_counts(
            max_batch_size=max_batch_size,
            max_seq_len=max_seq_len,
            expert_cache_size=expert_cache_size,
            stream_count=stream_count,
            top_k=top_k,
        )
        self.max_batch_size, self.max_seq_len = max_batch_size, max_seq_len
        self.stream_count = stream_count
        self.top_k, self.capacity = top_k, check_capacity(capacity or Capacity.none())
        self.num_layers, self.hidden_size = num_layers, moe.hidden_size
        self.num_slots = min(expert_cache_size, moe.num_experts)
        self.max_tokens = max_batch_size * max_seq_len
        self.stats = EngineStats.zeros(num_layers, moe.num_experts)
        self._routing: dict[int, LayerRouting] = {}
        self._input: Rows | None = None
        self._output: Rows | None = None
        self._results = self._step = aligned((0,))
        self._closed = False

    def _allocate_results(self) -> None:
        """Memory for what `infer` gives back, once all else is known to fit."""
        self._results = aligned((self.num_layers * self.max_tokens * self.hidden_size,))
        self._step = aligned((self.max_tokens, self.hidden_size))

    @abstractmethod
    def _run(self, index: int, x: Rows, out: Rows) -> None:
        """One layer: out [T, H] of x [T, H]; keeps what was routed in `_routing`."""

    @abstractmethod
    def _close(self) -> None:
        """Let go of everything that the device's engine holds."""

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
        most = self.max_tokens
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
        """Let go of memory and files.  Twice is fine.

        Counters and routing can still be read, and so can a result that was taken before.
        """
        if not self._closed:
            self._closed = True
            self._results = self._step = aligned((0,))
            self._input = self._output = None
            self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
