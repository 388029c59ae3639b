"""A cache at work: the plain loop behind every replay, batch after batch.

The accounting: one look-up for each distinct expert of a batch; a miss reads the expert; eviction
runs after the batch and never takes what the batch itself used, nor what is pinned. So nothing is
held beyond the room, but for what the batch and the pins need. With bypass a batch's own experts
may go too: they were used, and need not stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field

from .calls import Batches
from .policies import Policy
from .predictors import Predictor


@dataclass(frozen=True)
class Ahead:
    """Reading ahead: before each decode call, the predictor's first `depth` guesses."""

    predictor: Predictor
    depth: int


@dataclass(frozen=True)
class Step:
    """One batch of a replay; all but the last are keys.

    used : by the batch.   missed : of those, what was not resident.   pinned : of those, pinned
    and resident.   guessed : of the batch, before it came.   read_ahead : of the guesses, what was
    read, in order.   found_ahead : used, and resident only because it was read ahead.
    held_bytes : resident after the batch's eviction.
    """

    used: list[int]
    missed: list[int]
    decode: bool
    held_bytes: int
    pinned: list[int] = field(default_factory=list)
    guessed: list[int] = field(default_factory=list)
    read_ahead: list[int] = field(default_factory=list)
    found_ahead: list[int] = field(default_factory=list)


@dataclass
class Pool:
    """Room under one policy: the whole cache, or a layer's part of it.

    weights : what each key takes of the room, bytes or 1.   room : in the same unit.
    pinned : keys that stay once they are in.   bypass : a batch's own keys may be evicted after it.
    """

    policy: Policy
    weights: Sequence[int]
    room: int
    pinned: Set[int] = frozenset()
    bypass: bool = False
    held: int = 0
    resident: set[int] = field(default_factory=set)
    ahead: set[int] = field(default_factory=set)  # read ahead and not used since

    def use(self, keys: Sequence[int]) -> list[int]:
        """Look a batch's keys up; those that missed are resident from now on."""
        missed = []
        for key in keys:
            if key in self.resident:
                self.policy.on_hit(key)
            else:
                self._insert(key)
                missed.append(key)
        return missed

    def settle(self, used: Set[int]) -> list[int]:
        """Evict after a batch that used these."""
        return self._evict(self.pinned if self.bypass else used | self.pinned)

    def read_ahead(self, guesses: Sequence[int]) -> tuple[list[int], list[int]]:
        """Read guesses that are not resident, as many as the room could hold beside the pins; what
        went for it."""
        wanted: list[int] = []
        stays = self.pinned & self.resident - set(guesses) if self.pinned else ()
        size = sum(self.weights[key] for key in stays)
        for key in guesses:
            size += self.weights[key]
            if size <= self.room:
                wanted.append(key)
        read = [key for key in wanted if key not in self.resident]
        for key in read:
            self._insert(key)
        self.ahead.update(read)
        return read, self._evict(self.pinned | set(wanted)) if read else []

    def _insert(self, key: int) -> None:
        self.policy.on_insert(key)
        self.resident.add(key)
        self.held += self.weights[key]

    def _evict(self, kept: Set[int]) -> list[int]:
        """Until the room holds what is resident, or only what is kept is left."""
        gone = []
        while self.held > self.room:
            victim = self.policy.victim(kept)
            if not isinstance(victim, int):
                break
            self.policy.on_evict(victim)
            self.resident.remove(victim)
            self.ahead.discard(victim)
            self.held -= self.weights[victim]
            gone.append(victim)
        return gone


def steps(calls: Batches, pools: Sequence[Pool], ahead: Ahead | None = None) -> Iterator[Step]:
    """Replay batch after batch.   pools : one for all layers, or one for each."""
    sizes = calls.key_bytes.tolist()
    held_bytes = 0
    last_used: list[int] = []
    for used, decode in calls.groups():
        layer = used[0] // calls.num_experts
        pool = pools[layer if len(pools) > 1 else 0]
        guessed: list[int] = []
        read: list[int] = []
        gone: list[int] = []
        if ahead and decode:
            guessed = _guess(ahead, layer, _experts(last_used, calls), calls.num_experts)
            read, gone = pool.read_ahead(guessed)
        found_ahead = [key for key in used if key in pool.ahead]
        stayed = pool.pinned & pool.resident - pool.ahead if pool.pinned else frozenset()
        pinned = [key for key in used if key in stayed]
        pool.ahead.difference_update(found_ahead)
        missed = pool.use(used)
        gone = gone + pool.settle(set(used))
        held_bytes += sum(sizes[key] for key in read + missed) - sum(sizes[key] for key in gone)
        if ahead:
            ahead.predictor.learn(layer, _experts(last_used, calls), _experts(used, calls))
        last_used = used
        yield Step(used, missed, decode, held_bytes, pinned, guessed, read, found_ahead)


def _experts(keys: Sequence[int], calls: Batches) -> list[int]:
    return [key % calls.num_experts for key in keys]


def _guess(ahead: Ahead, layer: int, before: list[int], num_experts: int) -> list[int]:
    guesses = ahead.predictor.predict(layer, before)[: ahead.depth]
    return [layer * num_experts + expert for expert in guesses]
