"""What the CUDA engine queues: the order of copies and kernels over its streams, and what waits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..engine.cuda import CudaEngine
from ..engine.store import open_store
from ..kernels import Kernel
from ..kernels.device import Device, open_device

KINDS = ("copy to device", "fill", "kernel", "copy to host")


@dataclass(frozen=True)
class Queued:
    """One operation in a stream's queue.

    number : in the order of queueing.   after : numbers of those that must be done before it.
    waits : of them, those of other streams, by an event.   step : the first at which it could run,
    were each operation one step long and nothing else scarce: an order, no time.
    """

    number: int
    stream: int
    kind: str
    label: str
    num_bytes: int
    after: tuple[int, ...]
    waits: tuple[int, ...]
    step: int


@dataclass
class Recorder:
    """What was queued; filled by the driver that `recording` stands in for.

    host_waits : before which operation the host waited, and the step that it waited for.
    """

    queued: list[Queued] = field(default_factory=list)
    host_waits: list[tuple[int, int]] = field(default_factory=list)
    _streams: list[int] = field(default_factory=list)  # handles, in the order of their creation
    _last: dict[int, int] = field(default_factory=dict)
    _waiting: dict[int, set[int]] = field(default_factory=dict)
    _released: int = 0  # the step before which the host had queued nothing

    @property
    def longest(self) -> int:
        """Steps of the longest chain of operations that wait for one another."""
        return max((each.step + 1 for each in self.queued), default=0)

    def since(self, number: int) -> Recorder:
        """What was queued from an operation on, before which the host waited for all others."""
        begin = min((each.step for each in self.queued[number:]), default=0)

        def later(numbers: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(each - number for each in numbers if each >= number)

        queued = [
            replace(each, number=each.number - number, after=later(each.after),
                    waits=later(each.waits), step=each.step - begin)
            for each in self.queued[number:]
        ]  # fmt: skip
        waits = [(at - number, step - begin) for at, step in self.host_waits if at > number]
        return Recorder(queued, waits)

    def add(self, stream: Any, kind: str, label: str, num_bytes: int = 0) -> None:
        lane = self.lane(stream)
        waits = tuple(sorted(self._waiting.pop(lane, set())))
        own = (self._last[lane],) if lane in self._last else ()
        after = tuple(sorted({*own, *waits}))
        first = max((self.queued[number].step + 1 for number in after), default=0)
        number = len(self.queued)
        others = tuple(each for each in waits if self.queued[each].stream != lane)
        step = max(first, self._released)
        self.queued.append(Queued(number, lane, kind, label, num_bytes, after, others, step))
        self._last[lane] = number

    def lane(self, stream: Any) -> int:
        handle = int(stream.handle)
        if handle not in self._streams:
            self._streams.append(handle)
        return self._streams.index(handle)

    def last(self, stream: Any) -> int | None:
        return self._last.get(self.lane(stream))

    def wait(self, stream: Any, number: int | None) -> None:
        """What comes next in the stream waits for an operation."""
        if number is not None:
            self._waiting.setdefault(self.lane(stream), set()).add(number)

    def host_waits_for(self, numbers: Sequence[int]) -> None:
        """The host queues nothing before these are done."""
        done = max((self.queued[number].step + 1 for number in numbers), default=0)
        self._released = max(self._released, done)
        self.host_waits.append((len(self.queued), self._released))


class _Driver:
    """PyCUDA's driver, with everything that is queued written down; the rest is its own."""

    def __init__(self, driver: Any, recorder: Recorder) -> None:
        self._driver, self._recorder = driver, recorder
        self.Stream, self.Event = _classes(driver, recorder)
        self.Context = _Context(driver, recorder)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver, name)

    def memcpy_htod_async(self, place: Any, source: Any, stream: Any) -> None:
        self._recorder.add(stream, KINDS[0], KINDS[0], source.nbytes)
        self._driver.memcpy_htod_async(place, source, stream)

    def memcpy_dtoh_async(self, target: Any, place: Any, stream: Any) -> None:
        self._recorder.add(stream, KINDS[3], KINDS[3], target.nbytes)
        self._driver.memcpy_dtoh_async(target, place, stream)

    def memset_d32_async(self, place: Any, value: int, count: int, stream: Any) -> None:
        self._recorder.add(stream, KINDS[1], KINDS[1], 4 * count)
        self._driver.memset_d32_async(place, value, count, stream)


class _Context:
    def __init__(self, driver: Any, recorder: Recorder) -> None:
        self._driver, self._recorder = driver, recorder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver.Context, name)

    def synchronize(self) -> None:
        self._driver.Context.synchronize()
        self._recorder.host_waits_for([each.number for each in self._recorder.queued])


def _classes(driver: Any, recorder: Recorder) -> tuple[type, type]:
    """PyCUDA's streams and events, which say what they are told."""

    class Stream(driver.Stream):
        def wait_for_event(self, event: Any) -> None:
            recorder.wait(self, event.number)
            super().wait_for_event(event)

    class Event(driver.Event):
        number: int | None = None

        def record(self, stream: Any) -> Any:
            self.number = recorder.last(stream)
            return super().record(stream)

        def synchronize(self) -> Any:
            done = super().synchronize()
            recorder.host_waits_for([] if self.number is None else [self.number])
            return done

    return Stream, Event


class _Device:
    """A device whose driver and launches are written down."""

    def __init__(self, device: Device, recorder: Recorder) -> None:
        self._device, self._recorder = device, recorder
        self.driver = _Driver(device.driver, recorder)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)

    def function(
        self, kernel: Kernel, dtype: str, options: Sequence[str] = ()
    ) -> Callable[..., Any]:
        function = self._device.function(kernel, dtype, options)

        def launch(*arguments: Any, stream: Any, **geometry: Any) -> None:
            self._recorder.add(stream, KINDS[2], kernel.entry)
            function(*arguments, stream=stream, **geometry)

        return launch


def device_name() -> str:
    """Of the device that the queues are recorded on."""
    with open_device() as device:
        return device.name


def layer_queue(
    path: str | Path, layer: int, hidden_states: Any, *, warm: bool = False, **options: Any
) -> tuple[Recorder, Any]:
    """What a call of one layer queues, and its output [T, H].

    hidden_states : [T, H].   warm : a call before it has filled the expert slots.
    options : as of `CudaEngine`.
    """
    x, recorder = np.ascontiguousarray(hidden_states, np.float32), Recorder()
    store = open_store(path, None)
    try:
        with open_device() as device:
            watched: Any = _Device(device, recorder)
            options = {"max_batch_size": 1, "max_seq_len": len(x), **options}
            with CudaEngine(store, watched, **options) as engine:
                if warm:
                    engine.run_layer(layer, x)
                start = len(recorder.queued)
                output = engine.run_layer(layer, x)
                queue = recorder.since(start)
    finally:
        store.close()
    return queue, output
