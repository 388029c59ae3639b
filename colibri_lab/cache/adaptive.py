"""Policies that weigh recency against frequency."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Container, Hashable, Iterable

from .policies import LFU


class LFUDecay(LFU):
    """LFU whose counts are halved every `period` uses, so that old fame fades.

    Of keys with equal counts the longest unused goes.
    """

    def __init__(self, period: int = 4096) -> None:
        super().__init__()
        self._period = period
        self._last: dict[Hashable, int] = {}  # key -> when it was used last

    def _use(self, key: Hashable) -> None:
        super()._use(key)
        self._last[key] = self._now
        if self._now % self._period == 0:
            self._uses = Counter({known: uses // 2 for known, uses in self._uses.items()})
            for resident in list(self._resident):
                self._resident[resident] = (self._uses[resident], self._last[resident])


class LRFU:
    """Each use counts 0.5 ** (uses since / half_life); the smallest sum goes.

    half_life : small is LRU, large is LFU.   Source: Lee et al., LRFU, IEEE TC 50(12), 2001.
    """

    def __init__(self, half_life: float = 1024.0) -> None:
        self._decay = 0.5 ** (1.0 / half_life)
        self._now = 0
        self._seen: dict[Hashable, tuple[float, int]] = {}  # key -> sum at a time
        self._resident: dict[Hashable, None] = {}

    def on_hit(self, key: Hashable) -> None:
        self._now += 1
        self._seen[key] = (1.0 + self._value(key), self._now)

    def on_insert(self, key: Hashable) -> None:
        self.on_hit(key)
        self._resident[key] = None

    def on_evict(self, key: Hashable) -> None:
        del self._resident[key]

    def victim(self, protected: Container[Hashable]) -> Hashable | None:
        free = (key for key in self._resident if key not in protected)
        return min(free, key=self._value, default=None)

    def _value(self, key: Hashable) -> float:
        value, then = self._seen.get(key, (0.0, self._now))
        return float(value * self._decay ** (self._now - then))


class S3FIFO:
    """Three queues: a small one that most keys leave soon, the main one, and a memory of the left.

    The cache's size is taken as the most keys that were resident at once.
    Source: Yang et al., FIFO queues are all you need for cache eviction, SOSP 2023.
    """

    SMALL_SHARE = 0.1
    MOST = 3

    def __init__(self) -> None:
        self._small: OrderedDict[Hashable, int] = OrderedDict()  # key -> uses, the oldest first
        self._main: OrderedDict[Hashable, int] = OrderedDict()
        self._left: OrderedDict[Hashable, None] = OrderedDict()
        self._size = 1

    def on_hit(self, key: Hashable) -> None:
        queue = self._small if key in self._small else self._main
        queue[key] = min(queue[key] + 1, self.MOST)

    def on_insert(self, key: Hashable) -> None:
        was_left = self._left.pop(key, False) is None
        (self._main if was_left else self._small)[key] = 0
        self._size = max(self._size, len(self._small) + len(self._main) - 1)

    def on_evict(self, key: Hashable) -> None:
        if key in self._small:
            del self._small[key]
            self._left[key] = None
            if len(self._left) > self._size:
                self._left.popitem(last=False)
        else:
            del self._main[key]

    def victim(self, protected: Container[Hashable]) -> Hashable | None:
        small_is_full = len(self._small) >= max(1.0, self.SMALL_SHARE * self._size)
        if small_is_full and (found := self._from_small(protected)) is not None:
            return found
        found = self._from_main(protected)
        return self._from_small(protected) if found is None else found

    def _from_small(self, protected: Container[Hashable]) -> Hashable | None:
        for key, uses in list(self._small.items()):
            if key in protected:
                continue
            if uses <= 1:
                return key
            del self._small[key]
            self._main[key] = 0
        return None

    def _from_main(self, protected: Container[Hashable]) -> Hashable | None:
        for _ in range((self.MOST + 1) * len(self._main)):
            key, uses = next(iter(self._main.items()))
            if uses == 0 and key not in protected:
                return key
            self._main[key] = max(uses - 1, 0)
            self._main.move_to_end(key)
        return None


class ARC:
    """Two lists, used once and used again, whose shares follow what was regretted.

    The cache's size is taken as the most keys that were resident at once.
    Source: Megiddo and Modha, ARC, FAST 2003.
    """

    def __init__(self) -> None:
        self._once: OrderedDict[Hashable, None] = OrderedDict()  # the longest unused first
        self._again: OrderedDict[Hashable, None] = OrderedDict()
        self._left_once: OrderedDict[Hashable, None] = OrderedDict()
        self._left_again: OrderedDict[Hashable, None] = OrderedDict()
        self._share, self._size = 0.0, 1  # of the list of those used once; of the cache

    def on_hit(self, key: Hashable) -> None:
        self._once.pop(key, None)
        self._again[key] = None
        self._again.move_to_end(key)

    def on_insert(self, key: Hashable) -> None:
        once, again = len(self._left_once), len(self._left_again)
        if key in self._left_once:
            self._share = min(self._share + max(1.0, again / once), self._size)
            del self._left_once[key]
            self._again[key] = None
        elif key in self._left_again:
            self._share = max(self._share - max(1.0, once / again), 0.0)
            del self._left_again[key]
            self._again[key] = None
        else:
            self._once[key] = None
        self._size = max(self._size, len(self._once) + len(self._again) - 1)

    def on_evict(self, key: Hashable) -> None:
        queue, left = (
            (self._once, self._left_once) if key in self._once else (self._again, self._left_again)
        )
        del queue[key]
        left[key] = None
        if len(left) > self._size:
            left.popitem(last=False)

    def victim(self, protected: Container[Hashable]) -> Hashable | None:
        first, second = (
            (self._once, self._again)
            if len(self._once) > self._share
            else (self._again, self._once)
        )
        found = _first_free(first, protected)
        return _first_free(second, protected) if found is None else found


def _first_free(keys: Iterable[Hashable], protected: Container[Hashable]) -> Hashable | None:
    return next((key for key in keys if key not in protected), None)
