"""Experts in the device's memory: a layer's slots before the mapped weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...cache import Policy
from ...errors import InputError
from ...reference import ExpertWeights
from ..stats import EngineStats
from ..store import ExpertStore
from .memory import Pool


@dataclass
class _Slot:
    """loaded : when its copy is done.   used : stream -> when that stream's kernels are."""

    loaded: Any = None
    used: dict[int, Any] = field(default_factory=dict)


class ExpertSlots:
    """The slots of one MoE layer; a policy of `cache` says which expert gives its own up.

    gate, up, down : device memory [slots, I, H], [slots, I, H], [slots, H, I].
    A copy into a slot waits for all kernels that still read it, kernels wait for the copy, and
    nothing else waits.
    """

    def __init__(
        self,
        store: ExpertStore,
        layer: int,
        num_slots: int,
        policy: Policy,
        stats: EngineStats,
        pool: Pool,
        driver: Any,
        dtype: Any,
    ) -> None:
        self._store, self._layer, self._policy, self._stats = store, layer, policy, stats
        self._driver, self._bytes = driver, store.expert_bytes(layer)
        wide = store.moe.intermediate_size * store.moe.hidden_size
        self._part_bytes = wide * np.dtype(dtype).itemsize
        self.gate, self.up, self.down = (
            pool.device(num_slots * self._part_bytes) for _ in range(3)
        )
        self._staging = [pool.pinned((3, wide), dtype) for _ in range(2)]  # one fills, one copies
        self._copied: list[Any] = [None, None]
        self._turn = 0
        self._slots = [_Slot() for _ in range(num_slots)]
        self._free = list(range(num_slots))
        self._slot_of: dict[int, int] = {}

    def rounds(self, active: Sequence[int]) -> list[list[int]]:
        """Experts in groups that fit the slots, those that are resident first."""
        ordered = sorted(active, key=lambda expert: expert not in self._slot_of)
        size = len(self._slots)
        return [ordered[start : start + size] for start in range(0, len(ordered), size)]

    def acquire(self, experts: Sequence[int], stream: Any, table: Any) -> None:
        """Make experts resident for what is queued on the stream next.

        table : [E] int32, is filled with each expert's slot; -1 for all others.
        """
        table[:] = -1
        for expert in experts:
            slot = self._slot_of.get(expert)
            if slot is None:
                slot = self._load(expert, self._take(set(experts)), stream)
            else:
                self._policy.on_hit(expert)
                self._stats.hits[self._layer, expert] += 1
                stream.wait_for_event(self._slots[slot].loaded)
            table[expert] = slot

    def release(self, experts: Sequence[int], stream: Any, number: int) -> None:
        """The kernels queued on stream `number` until now are the last to read these."""
        event = self._driver.Event()
        event.record(stream)
        for expert in experts:
            self._slots[self._slot_of[expert]].used[number] = event

    def _take(self, needed: set[int]) -> int:
        if self._free:
            return self._free.pop()
        victim = self._policy.victim(needed)
        assert isinstance(victim, int)  # a round is never larger than the slots
        self._policy.on_evict(victim)
        self._stats.evictions[self._layer, victim] += 1
        return self._slot_of.pop(victim)

    def _load(self, expert: int, slot: int, stream: Any) -> int:
        try:
            staging = self._stage(self._store.read_expert(self._layer, expert))
        except BaseException:
            self._free.append(slot)
            raise
        held = self._slots[slot]
        for event in held.used.values():
            stream.wait_for_event(event)
        for part, memory in zip(staging, (self.gate, self.up, self.down), strict=True):
            place = int(memory) + slot * self._part_bytes
            self._driver.memcpy_htod_async(place, part, stream)
        held.loaded = self._driver.Event()
        held.loaded.record(stream)
        self._copied[self._turn] = held.loaded
        self._turn = 1 - self._turn
        held.used.clear()
        self._slot_of[expert] = slot
        self._policy.on_insert(expert)
        for counter in (self._stats.misses, self._stats.loads):
            counter[self._layer, expert] += 1
        self._stats.bytes_read[self._layer, expert] += self._bytes
        return slot

    def _stage(self, weights: ExpertWeights) -> Any:
        """The expert in pinned memory, once the copy that used it before is done."""
        if weights.bias is not None or weights.clamp is not None:
            raise InputError(
                "the cuda backend computes plain SwiGLU experts",
                expected="experts without biases and clamp",
                found="gpt-oss's own kind",
                hint="take the cpu backend",
            )
        if self._copied[self._turn] is not None:
            self._copied[self._turn].synchronize()
        staging = self._staging[self._turn]
        for row, part in zip(staging, (weights.gate, weights.up, weights.down), strict=True):
            row[:] = np.asarray(part).reshape(-1)
        return staging
