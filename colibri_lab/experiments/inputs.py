"""The inputs of a sweep: real hidden states, captured once before every MoE layer."""

from __future__ import annotations

import hashlib
import math
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..config import ModelConfig
from ..errors import InputError, RunError
from ..reference import Decoder
from .files import read_arrays, write_arrays
from .progress import check
from .reference_runs import watched_moe
from .texts import Corpus

FILE_NAME = "inputs.npz"
STORED = {"hidden_states", "kind", "domains", "token_ids", "context"}
KINDS = ("text", "random")
TURN_LENGTH = 16  # calls that a group of sequences is followed for
CONTEXT = 16  # positions read before the first captured one: a sequence's start is untypical
MAX_POSITIONS = 256
LARGE_BYTES = 64 << 20  # above it the states are kept as float16
HELD_BYTES = 256 << 20  # prepared calls in memory


@dataclass(frozen=True)
class Inputs:
    """hidden_states : [L, N, P, H], N sequences of P consecutive positions, before each MoE layer.

    kind : ``text`` or ``random``.   domains : [N] of each sequence.   context : positions left out.
    """

    hidden_states: NDArray[Any]
    kind: str
    domains: tuple[str, ...]
    token_ids: NDArray[np.int64]
    context: int

    @property
    def num_sequences(self) -> int:
        return self.hidden_states.shape[1]

    @property
    def num_positions(self) -> int:
        return self.hidden_states.shape[2]

    def call(self, index: int, batch_size: int, seq_len: int) -> NDArray[np.float32]:
        """[L, batch_size * seq_len, H], contiguous: what the `index`-th call is given.

        A group of sequences is followed through consecutive positions for TURN_LENGTH calls, then
        the next sequences take their turn, so that every batch size sees every domain. Whoever
        comes back goes on where it was; past the last position it starts over.
        """
        sequences, starts = self._place(index, batch_size, seq_len)
        positions = starts[:, None] + np.arange(seq_len)
        states = self.hidden_states[:, sequences[:, None], positions]
        shape = (len(states), batch_size * seq_len, states.shape[-1])
        return np.ascontiguousarray(states.reshape(shape), np.float32)

    def _place(
        self, index: int, batch_size: int, seq_len: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        slots = self.num_positions // seq_len
        turn_length = min(TURN_LENGTH, slots)
        turn, step = divmod(index, turn_length)
        rounds, sequences = np.divmod(turn * batch_size + np.arange(batch_size), self.num_sequences)
        return sequences, (rounds * turn_length + step) % slots * seq_len

    def calls(
        self,
        count: int,
        batch_size: int,
        seq_len: int,
        cancel: threading.Event | None = None,
    ) -> list[NDArray[np.float32]]:
        """The first `count` calls; fewer where they would fill memory, then they are repeated."""
        size = self.hidden_states.shape[0] * batch_size * seq_len * self.hidden_states.shape[3] * 4
        distinct = held_calls(count, size)
        made = []
        for index in range(distinct):
            check(cancel)
            made.append(self.call(index, batch_size, seq_len))
        return [made[index % distinct] for index in range(count)]

    def describe(self) -> dict[str, Any]:
        """What the manifest says about the inputs."""
        digest = hashlib.sha256(np.ascontiguousarray(self.hidden_states).data).hexdigest()[:16]
        return {
            "kind": self.kind,
            "synthetic": self.kind != "text",
            "file": FILE_NAME,
            "digest": digest,
            "dtype": str(self.hidden_states.dtype),
            "num_sequences": self.num_sequences,
            "num_positions": self.num_positions,
            "context": self.context,
            "turn_length": TURN_LENGTH,
            "domains": list(self.domains),
        }


def held_calls(count: int, call_bytes: int) -> int:
    """How many different calls are held in memory."""
    return max(1, min(count, HELD_BYTES // call_bytes))


@dataclass(frozen=True)
class Needs:
    """The most that any cell asks for."""

    batch_size: int
    seq_len: int
    num_calls: int

    def positions(self, num_sequences: int) -> int:
        """Positions that let the largest cell go without starting over, within MAX_POSITIONS."""
        turns = -(-self.num_calls // TURN_LENGTH)
        rounds = -(-turns * self.batch_size // num_sequences)
        wanted = rounds * TURN_LENGTH * self.seq_len
        return max(self.seq_len, min(wanted, MAX_POSITIONS))


@dataclass(frozen=True)
class Reading:
    """count : sequences.   context : positions of each that are left out.   length : and kept."""

    count: int
    context: int
    length: int

    def shape(self, config: ModelConfig) -> tuple[int, int, int, int]:
        """[L, count, length, H]."""
        return config.num_moe_layers, self.count, self.length, config.hidden_size

    def dtype(self, config: ModelConfig) -> np.dtype[Any]:
        """float16 where float32 would be large."""
        large = math.prod(self.shape(config)) * 4 > LARGE_BYTES
        return np.dtype(np.float16 if large else np.float32)

    def num_bytes(self, config: ModelConfig) -> int:
        """Bytes of the states."""
        return math.prod(self.shape(config)) * self.dtype(config).itemsize

    def empty(self, config: ModelConfig) -> NDArray[Any]:
        return np.empty(self.shape(config), self.dtype(config))


def capture(
    decoder: Decoder, corpus: Corpus, needs: Needs, cancel: threading.Event | None = None
) -> Inputs:
    """Read text with the reference and keep what each MoE layer is given.

    The model's own top_k, without a capacity policy.
    """
    reading = plan_reading(decoder.config, corpus, needs)
    domains, token_ids = corpus.windows(reading.count, reading.context + reading.length)
    moe = watched_moe(decoder, cancel=cancel)
    states = reading.empty(decoder.config)
    for index, row in enumerate(token_ids):
        for layer, seen in enumerate(decoder.forward(row, trace=True, moe=moe).moe_inputs):
            states[layer, index] = seen[reading.context :]
    return Inputs(states, "text", tuple(domains), token_ids, reading.context)


def plan_reading(config: ModelConfig, corpus: Corpus, needs: Needs) -> Reading:
    """What `capture` would read; InputError where model or texts are too short for it."""
    count = max(needs.batch_size, len(corpus.domains))
    room = min(config.max_seq_len, corpus.longest_window(count))
    context = min(CONTEXT, max(room - needs.seq_len, 0))
    length = min(needs.positions(count), room - context)
    if length < needs.seq_len:
        raise InputError(
            "seq_len is longer than the model or the texts allow",
            expected=f"at most {room} for {count} sequences",
            found=needs.seq_len,
            hint="choose a smaller seq_len or batch_size, or give longer texts",
        )
    return Reading(count, context, length)


def random_inputs(decoder: Decoder, needs: Needs, seed: int) -> Inputs:
    """Independent normal values: what no real layer is given, so results are marked with it."""
    reading = random_reading(needs)
    states = reading.empty(decoder.config)
    shape, generator = states.shape[1:], np.random.default_rng(seed)
    for layer in states:
        layer[...] = generator.standard_normal(shape, np.float32)
    kinds = ("random",) * reading.count
    return Inputs(states, "random", kinds, np.zeros((reading.count, 0), np.int64), 0)


def random_reading(needs: Needs) -> Reading:
    """What `random_inputs` makes."""
    return Reading(needs.batch_size, 0, needs.positions(needs.batch_size))


def save_inputs(folder: Path, inputs: Inputs) -> None:
    write_arrays(
        folder / FILE_NAME,
        {
            "hidden_states": inputs.hidden_states,
            "kind": np.array(inputs.kind),
            "domains": np.array(inputs.domains),
            "token_ids": inputs.token_ids,
            "context": np.array(inputs.context),
        },
    )


def load_inputs(folder: Path) -> Inputs | None:
    """The inputs that an earlier run stored, or None."""
    path = folder / FILE_NAME
    if not path.exists():
        return None
    hint = "start a new run in another folder"
    arrays = read_arrays(path, "the run's stored inputs", hint)
    if missing := sorted(STORED - arrays.keys()):
        raise RunError(
            "the run's stored inputs are incomplete",
            path=path,
            expected=", ".join(missing),
            found=", ".join(arrays),
            hint=hint,
        )
    return Inputs(
        hidden_states=arrays["hidden_states"],
        kind=str(arrays["kind"]),
        domains=tuple(str(name) for name in arrays["domains"]),
        token_ids=arrays["token_ids"],
        context=int(arrays["context"]),
    )


def check_fit(inputs: Inputs, needs: Needs, folder: Path) -> None:
    """RunError where stored inputs are too few for a grid that has grown."""
    enough = inputs.num_sequences >= needs.batch_size and inputs.num_positions >= needs.seq_len
    if not enough:
        raise RunError(
            "the run's stored inputs are too few for this grid",
            path=folder / FILE_NAME,
            expected=f"{needs.batch_size} sequences of {needs.seq_len} positions or more",
            found=f"{inputs.num_sequences} sequences of {inputs.num_positions} positions",
            hint="run the larger grid in a new folder: a run keeps to one set of inputs",
        )
