"""Experts in memory: a layer's slots before the mapped weights."""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from ..cache import Policy
from ..errors import FormatError
from ..reference import ExpertBias, ExpertWeights
from .buffers import aligned
from .stats import EngineStats
from .store import ExpertStore


@dataclass
class _Resident:
    """An expert in its slot.

    users : streams computing with it; with one or more it stays.   ready : it is read in.
    """

    slot: ExpertWeights
    users: int = 1
    ready: bool = False


class ExpertCache:
    """The slots of one MoE layer, float32, allocated once.

    An expert that a stream computes with is not evicted; a stream that finds all slots in use
    waits; two streams that miss the same expert read it once.
    """

    def __init__(
        self, store: ExpertStore, layer: int, num_slots: int, policy: Policy, stats: EngineStats
    ) -> None:
        self._store, self._layer, self._policy, self._stats = store, layer, policy, stats
        self._free = [_empty_slot(store) for _ in range(num_slots)]
        self._expert_bytes = store.expert_bytes(layer)
        self._residents: dict[int, _Resident] = {}
        self._changed = threading.Condition()

    def __contains__(self, expert: int) -> bool:
        return expert in self._residents

    @contextmanager
    def use(self, expert: int) -> Iterator[ExpertWeights]:
        """The expert's weights, resident for as long as the block runs."""
        resident = self._acquire(expert)
        try:
            yield resident.slot
        finally:
            with self._changed:
                resident.users -= 1
                self._changed.notify_all()

    def _acquire(self, expert: int) -> _Resident:
        with self._changed:
            while True:
                resident = self._residents.get(expert)
                if resident is not None and resident.ready:
                    return self._hit(expert, resident)
                if resident is None and (slot := self._take_slot()) is not None:
                    resident = self._miss(expert, slot)
                    break
                self._changed.wait()
        self._load(expert, resident)
        return resident

    def _hit(self, expert: int, resident: _Resident) -> _Resident:
        resident.users += 1
        self._policy.on_hit(expert)
        self._stats.hits[self._layer, expert] += 1
        return resident

    def _miss(self, expert: int, slot: ExpertWeights) -> _Resident:
        resident = _Resident(slot)
        self._residents[expert] = resident
        self._policy.on_insert(expert)
        self._stats.misses[self._layer, expert] += 1
        return resident

    def _take_slot(self) -> ExpertWeights | None:
        """A free slot, or that of the policy's victim; None where all are in use."""
        if self._free:
            return self._free.pop()
        in_use: set[Hashable] = {key for key, held in self._residents.items() if held.users}
        victim = self._policy.victim(in_use)
        if not isinstance(victim, int):
            return None
        self._policy.on_evict(victim)
        self._stats.evictions[self._layer, victim] += 1
        return self._residents.pop(victim).slot

    def _load(self, expert: int, resident: _Resident) -> None:
        """Read the expert into its slot, outside the lock: other streams go on meanwhile."""
        start = time.perf_counter()
        try:
            resident.slot = _stored(self._read(expert), resident.slot)
        except BaseException:
            self._give_up(expert, resident)
            raise
        elapsed = time.perf_counter() - start
        with self._changed:
            resident.ready = True
            self._stats.loads[self._layer, expert] += 1
            self._stats.load_s[self._layer, expert] += elapsed
            self._stats.bytes_read[self._layer, expert] += self._expert_bytes
            self._changed.notify_all()

    def _read(self, expert: int) -> ExpertWeights:
        try:
            return self._store.read_expert(self._layer, expert)
        except OSError as error:
            raise FormatError(
                f"expert {expert} of MoE layer {self._layer} cannot be read",
                path=error.filename,
                found=f"{type(error).__name__}: {error}",
                hint="the disk or its network may have failed: copy the model to another one",
            ) from error

    def _give_up(self, expert: int, resident: _Resident) -> None:
        """A failed load: as if it had not been asked for."""
        with self._changed:
            del self._residents[expert]
            self._policy.on_evict(expert)
            self._free.append(resident.slot)
            self._changed.notify_all()


def _stored(weights: ExpertWeights, slot: ExpertWeights) -> ExpertWeights:
    """The weights copied into the slot's memory; biases are few and are kept beside it."""
    for part in ("gate", "up", "down"):
        np.copyto(getattr(slot, part), getattr(weights, part))
    bias = weights.bias
    if bias is not None:
        parts = (np.array(part, np.float32) for part in (bias.gate, bias.up, bias.down))
        bias = ExpertBias(*parts)
    return ExpertWeights(slot.gate, slot.up, slot.down, bias, weights.clamp)


def _empty_slot(store: ExpertStore) -> ExpertWeights:
    wide = (store.moe.intermediate_size, store.moe.hidden_size)
    return ExpertWeights(aligned(wide), aligned(wide), aligned(wide[::-1]))
