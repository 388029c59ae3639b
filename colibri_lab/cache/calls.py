"""The look-ups of a trace: what a cache is asked for, call after call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..errors import TraceError
from ..reference.trace import DECODE, RoutingTrace
from ..traces.parquet import MAX_EXPERT_BYTES


@dataclass(frozen=True)
class Batches:
    """The look-ups of a trace.

    keys : [N] int64, layer * num_experts + expert, a batch's distinct ones in order of first use.
    starts : [B+1] int64, batch b has keys starts[b] to starts[b+1].
    decode : [B] bool.   key_bytes : [L * E] int64.   num_experts : E.
    guesses : [B] the keys that the router named one layer early, the likeliest first; None where
    the trace has no look-ahead.
    steps : [B] int64, a number for each request and step; None where that is not known.
    """

    keys: NDArray[np.int64]
    starts: NDArray[np.int64]
    decode: NDArray[np.bool_]
    key_bytes: NDArray[np.int64]
    num_experts: int
    guesses: Sequence[list[int]] | None = None
    steps: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.decode)

    @property
    def num_layers(self) -> int:
        return len(self.key_bytes) // self.num_experts

    @property
    def layers(self) -> NDArray[np.int64]:
        """[B] each batch's layer."""
        return self.keys[self.starts[:-1]] // self.num_experts

    @property
    def equal_sizes(self) -> bool:
        """Whether all experts have as many bytes."""
        return bool((self.key_bytes == self.key_bytes[0]).all())

    @property
    def used_bytes(self) -> int:
        """Bytes of all experts that are used at all."""
        return int(self.key_bytes[np.unique(self.keys)].sum())

    @property
    def largest_bytes(self) -> int:
        """Bytes that the largest batch needs at once."""
        return int(np.add.reduceat(self.key_bytes[self.keys], self.starts[:-1]).max())

    def part(self, start: int, stop: int) -> Batches:
        """Batches start to stop alone."""
        first, last = self.starts[start], self.starts[stop]
        return replace(
            self,
            keys=self.keys[first:last],
            starts=self.starts[start : stop + 1] - first,
            decode=self.decode[start:stop],
            guesses=None if self.guesses is None else self.guesses[start:stop],
            steps=None if self.steps is None else self.steps[start:stop],
        )

    def of_layer(self, layer: int) -> Batches:
        """The batches of one layer alone, with their keys as they are."""
        chosen = self.layers == layer
        lengths = np.diff(self.starts)
        return replace(
            self,
            keys=self.keys[np.repeat(chosen, lengths)],
            starts=np.concatenate([[0], np.cumsum(lengths[chosen])]),
            decode=self.decode[chosen],
            guesses=None,  # they are for reading ahead of the layer, which one alone has no use for
            steps=None if self.steps is None else self.steps[chosen],
        )

    def tokens(self) -> NDArray[np.int64]:
        """[B] which decode token a call is of, counted from 0 as they begin; -1 for prefill.

        A token is the calls of one request and step whose layers rise. So layers may be missing,
        requests take turns between layers, and steps restart.
        """
        steps = np.zeros(len(self), np.int64) if self.steps is None else self.steps
        order = np.flatnonzero(self.decode)
        order = order[np.argsort(steps[order], kind="stable")]
        layer, step = self.layers[order], steps[order]
        begins = np.ones(len(order), np.bool_)
        begins[1:] = (np.diff(step) != 0) | (np.diff(layer) <= 0)
        found = np.full(len(self), -1, np.int64)
        rank = np.argsort(np.argsort(order[begins]))
        found[order] = rank[np.cumsum(begins) - 1]
        return found

    def groups(self) -> Iterator[tuple[list[int], bool]]:
        """Each batch's keys, and whether it is of decode."""
        parts = np.split(self.keys, self.starts[1:-1])
        return zip((part.tolist() for part in parts), self.decode.tolist(), strict=True)


def batches(trace: RoutingTrace, *, per_token: bool = False) -> Batches:
    """The layer calls of a trace; TraceError where it has none or no sizes.

    A call ends where the layer or the phase changes, and in decode where the step does.
    per_token : every token asks for its own experts, as if it were a call of its own: the demand of
    an engine that reads a prompt token by token.
    """
    kept = trace.expert >= 0
    layer, expert = trace.layer[kept].astype(np.int64), trace.expert[kept].astype(np.int64)
    phase, step = trace.phase[kept], trace.step[kept]
    if not len(layer):
        raise TraceError("the trace is empty", expected="one assignment or more", found=0)
    if max(trace.expert_bytes) > MAX_EXPERT_BYTES:
        raise TraceError(
            "experts are absurdly large",
            expected=f"at most {MAX_EXPERT_BYTES} bytes",
            found=max(trace.expert_bytes),
        )
    if not all(size > 0 for size in trace.expert_bytes):
        raise TraceError(
            "the trace does not say how large experts are",
            expected="expert_bytes of every layer",
            found=list(trace.expert_bytes)[:4],
            hint="give --expert-bytes when it is imported",
        )
    changed = call_ends(layer, phase, step)
    if per_token:
        changed = changed | (np.diff(step) != 0) | (np.diff(trace.request[kept]) != 0)
    call = np.concatenate([[0], np.cumsum(changed)])
    keys = layer * trace.num_experts + expert
    first = _first_in_call(call, keys)
    counts = np.bincount(call[first], minlength=call[-1] + 1)
    begins = np.concatenate([[0], np.flatnonzero(changed) + 1])
    return Batches(
        keys=keys[first],
        starts=np.concatenate([[0], np.cumsum(counts)]),
        decode=phase[begins] == DECODE,
        key_bytes=np.repeat(np.array(trace.expert_bytes, np.int64), trace.num_experts),
        num_experts=trace.num_experts,
        guesses=None if trace.lookahead is None else _guesses(trace, kept, call),
        steps=trace.request[kept][begins].astype(np.int64) << 32 | step[begins],
    )


def _guesses(
    trace: RoutingTrace, kept: NDArray[np.bool_], call: NDArray[np.int64]
) -> list[list[int]]:
    """[B] what was guessed of each call: all first choices, then all second ones, each key once."""
    assert trace.lookahead is not None
    ahead = trace.lookahead[kept].astype(np.int64)
    keys = trace.layer[kept].astype(np.int64) * trace.num_experts + ahead
    order = np.lexsort((np.arange(len(call)), trace.slot[kept], call))
    order = order[ahead[order] >= 0]
    ends = np.cumsum(np.bincount(call[order], minlength=int(call[-1]) + 1))
    parts = np.split(keys[order], ends[:-1])
    return [list(dict.fromkeys(part.tolist())) for part in parts]


def call_ends(
    layer: NDArray[np.integer], phase: NDArray[np.uint8], step: NDArray[np.int32]
) -> NDArray[np.bool_]:
    """[N-1] bool, whether a layer call ends between an assignment and the next."""
    changed = (np.diff(layer) != 0) | (np.diff(phase) != 0)
    ended: NDArray[np.bool_] = changed | ((phase[1:] == DECODE) & (np.diff(step) != 0))
    return ended


def _first_in_call(call: NDArray[np.int64], keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Positions at which a call uses a key for the first time, in order."""
    combined = call * (int(keys.max()) + 1) + keys
    return np.sort(np.unique(combined, return_index=True)[1])
