"""Queued work runs at a synchronising call, in any order that the CUDA rules leave open."""

from __future__ import annotations

import ctypes
import threading

import numpy as np
import pytest

from colibri_lab import simt

from .device import CudaError

N = 64
BYTES = ctypes.c_size_t(4 * N)
NON_BLOCKING = 1
SEEDS = (0, 1, 2, 3, 4, 5, 6, 7)


@pytest.fixture
def queue(device, plain):
    queue = Queue(device, plain("driver.cu"))
    simt.set_seed(0)
    yield queue
    simt.set_seed(0)


class Queue:
    """Asynchronous calls on a device: buffers of N integers, pinned host memory."""

    def __init__(self, device, image):
        self.device, self.call = device, device.call
        self.module = device.load(image)
        self.functions = {}

    def buffer(self, value=0):
        return self.device.put(np.full(N, value, np.int32))

    def pinned(self, value=0):
        address = ctypes.c_void_p()
        self.call("cuMemHostAlloc", ctypes.byref(address), BYTES, 0)
        array = np.ctypeslib.as_array((ctypes.c_int32 * N).from_address(address.value))
        array[:] = value
        return array

    def stream(self, flags=0):
        made = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(made), flags)
        return made

    def event(self):
        made = ctypes.c_void_p()
        self.call("cuEventCreate", ctypes.byref(made), 0)
        return made

    def launch(self, name, *args, stream=None, grid=1, block=N, shared=0):
        if name not in self.functions:
            function = ctypes.c_void_p()
            self.call("cuModuleGetFunction", ctypes.byref(function), self.module, name.encode())
            self.functions[name] = function
        held = [np.array(arg, np.uint64 if isinstance(arg, int) else arg.dtype) for arg in args]
        pointers = (ctypes.c_void_p * len(held))(*(one.ctypes.data for one in held))
        sizes = (grid, 1, 1, block, 1, 1, shared)
        self.call("cuLaunchKernel", self.functions[name], *sizes, stream, pointers, None)

    def add(self, buffer, value, stream=None):
        self.launch("add", buffer, np.int32(value), np.int32(N), stream=stream)

    def copy(self, to, source, stream=None):
        self.launch("copy", to, source, np.int32(N), stream=stream)

    def to_host(self, array, buffer, stream):
        host = ctypes.c_void_p(array.ctypes.data)
        self.call("cuMemcpyDtoHAsync_v2", host, ctypes.c_uint64(buffer), BYTES, stream)

    def to_device(self, buffer, array, stream):
        host = ctypes.c_void_p(array.ctypes.data)
        self.call("cuMemcpyHtoDAsync_v2", ctypes.c_uint64(buffer), host, BYTES, stream)

    def synchronize(self, stream=None):
        if stream is None:
            self.call("cuCtxSynchronize")
        else:
            self.call("cuStreamSynchronize", stream)

    def read(self, buffer):
        return int(self.device.get(buffer, N, np.int32)[0])


def test_a_host_that_reads_too_early_sees_the_old(queue):
    stream, buffer, host = queue.stream(), queue.buffer(), queue.pinned(-1)
    queue.add(buffer, 3, stream)
    queue.to_host(host, buffer, stream)
    assert (host == -1).all()
    queue.synchronize(stream)
    assert (host == 3).all()


def test_mapped_memory_is_written_when_the_kernel_runs(queue):
    host = queue.pinned(10)
    queue.add(int(host.ctypes.data), 1)
    assert (host == 10).all()
    queue.synchronize()
    assert (host == 11).all()


def test_pinned_memory_is_read_when_the_copy_runs(queue):
    stream, buffer, host = queue.stream(), queue.buffer(), queue.pinned(1)
    queue.to_device(buffer, host, stream)
    host[:] = 2  # too early: the copy has not run
    queue.synchronize(stream)
    assert queue.read(buffer) == 2


def test_pageable_memory_is_taken_at_once(queue):
    stream, buffer, host = queue.stream(), queue.buffer(), np.full(N, 1, np.int32)
    queue.to_device(buffer, host, stream)
    host[:] = 2
    queue.synchronize(stream)
    assert queue.read(buffer) == 1


def test_a_copy_to_pageable_memory_waits(queue):
    stream, buffer, host = queue.stream(), queue.buffer(), np.zeros(N, np.int32)
    queue.add(buffer, 4, stream)
    queue.to_host(host, buffer, stream)
    assert (host == 4).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_stream_keeps_its_order(queue, seed):
    simt.set_seed(seed)
    streams = [queue.stream() for _ in range(3)]
    buffers = [queue.buffer() for _ in streams]
    for i in range(1, 20):
        for stream, buffer in zip(streams, buffers, strict=True):
            queue.add(buffer, i, stream)
            queue.copy(buffer, queue_double(queue, buffer, stream), stream)
    queue.synchronize()
    expected = 0
    for i in range(1, 20):
        expected = (2 * (expected + i)) % 2**31
    assert [queue.read(buffer) % 2**31 for buffer in buffers] == [expected] * 3


def queue_double(queue, buffer, stream):
    """A buffer of twice the values, by two copies into a new one."""
    double = queue.device.empty(4 * N)
    queue.call("cuMemsetD32Async", ctypes.c_uint64(double), 0, ctypes.c_size_t(N), stream)
    queue.launch("copy", double, buffer, np.int32(N), stream=stream)
    queue.launch("double_into", double, buffer, np.int32(N), stream=stream)
    return double


@pytest.mark.parametrize("seed", SEEDS)
def test_an_event_orders_two_streams(queue, seed):
    simt.set_seed(seed)
    first, second = queue.stream(), queue.stream()
    buffer, result = queue.buffer(), queue.buffer(-1)
    done = queue.event()
    queue.add(buffer, 7, first)
    queue.call("cuEventRecord", done, first)
    queue.add(buffer, 100, first)  # after the event: may or may not be seen
    queue.call("cuStreamWaitEvent", second, done, 0)
    queue.copy(result, buffer, second)
    queue.synchronize(second)
    assert queue.read(result) in (7, 107)


def results_without_an_event(queue, seed):
    simt.set_seed(seed)
    first, second = queue.stream(NON_BLOCKING), queue.stream(NON_BLOCKING)
    buffer, result = queue.buffer(), queue.buffer(-1)
    queue.add(buffer, 7, first)
    queue.copy(result, buffer, second)
    queue.synchronize()
    return queue.read(result)


def test_a_missing_event_shows(queue):
    assert results_without_an_event(queue, 0) == 0


def test_seeds_draw_orders_and_draw_them_again(queue):
    drawn = [results_without_an_event(queue, seed) for seed in range(1, 30)]
    assert set(drawn) == {0, 7}
    assert drawn == [results_without_an_event(queue, seed) for seed in range(1, 30)]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_default_stream_waits_and_is_waited_for(queue, seed):
    simt.set_seed(seed)
    before, after, buffer = queue.stream(), queue.stream(), queue.buffer()
    result, late = queue.buffer(-1), queue.buffer(-1)
    queue.add(buffer, 5, before)
    queue.copy(result, buffer)
    queue.copy(late, result, after)
    queue.synchronize(after)
    assert (queue.read(result), queue.read(late)) == (5, 5)


def test_a_non_blocking_stream_does_not_wait_for_the_default(queue):
    stream, buffer, result = queue.stream(NON_BLOCKING), queue.buffer(), queue.buffer(-1)
    queue.add(buffer, 5)
    queue.copy(result, buffer, stream)
    queue.synchronize(stream)
    assert queue.read(result) == 0


def is_ready(queue, name, handle):
    code = getattr(queue.device.driver, name)(handle)
    assert code in (0, 600)
    return code == 0


def test_queries_come_to_an_end(queue):
    stream, buffer, event = queue.stream(), queue.buffer(), queue.event()
    assert is_ready(queue, "cuStreamQuery", stream)
    assert is_ready(queue, "cuEventQuery", event)  # never recorded
    for _ in range(3):
        queue.add(buffer, 1, stream)
    queue.call("cuEventRecord", event, stream)
    assert not is_ready(queue, "cuEventQuery", event)
    asked = 1
    while not is_ready(queue, "cuEventQuery", event):
        asked += 1
    assert asked == 4  # three kernels and the record itself
    assert is_ready(queue, "cuStreamQuery", stream)


def test_elapsed_time_needs_events_that_happened(queue):
    first, second, time = queue.event(), queue.event(), ctypes.c_float()
    elapsed = ("cuEventElapsedTime_v2", ctypes.byref(time), first, second)
    with pytest.raises(CudaError, match="400 invalid resource handle"):
        queue.call(*elapsed)
    queue.call("cuEventRecord", first, None)
    queue.call("cuEventRecord", second, None)
    with pytest.raises(CudaError, match="600 device not ready"):
        queue.call(*elapsed)
    queue.call("cuEventSynchronize", second)
    queue.call(*elapsed)
    assert 0 <= time.value < 1000


def test_a_destroyed_stream_still_does_its_work(queue):
    stream, buffer = queue.stream(), queue.buffer()
    queue.add(buffer, 9, stream)
    queue.call("cuStreamDestroy_v2", stream)
    queue.synchronize()
    assert queue.read(buffer) == 9
    with pytest.raises(CudaError, match="400 invalid resource handle: no such stream"):
        queue.synchronize(stream)


def test_freeing_waits_for_what_uses_the_memory(queue):
    stream, buffer, host = queue.stream(), queue.buffer(), queue.pinned()
    queue.add(buffer, 2, stream)
    queue.to_host(host, buffer, stream)
    queue.device.free(buffer)
    assert (host == 2).all()


def test_a_queue_has_an_end(queue):
    stream, host = queue.stream(), queue.pinned()
    for _ in range(1500):
        queue.add(int(host.ctypes.data), 1, stream)
    assert 0 < host[0] < 1500  # a GPU's queue is finite too: the oldest work had to run
    queue.synchronize()
    assert (host == 1500).all()


class Ordered:
    """Random work on buffers by several streams, with an event wherever another stream was last."""

    def __init__(self, queue, rng):
        self.queue, self.rng = queue, rng
        self.streams = [None, queue.stream(), queue.stream(), queue.stream(NON_BLOCKING)]
        self.values = rng.integers(1, 9, 4)
        self.buffers = [queue.buffer(value) for value in self.values]
        self.last = [0] * 4  # the stream that used a buffer last

    def order(self, number, *buffers):
        for buffer in buffers:
            if self.last[buffer] != number:
                event = self.queue.event()
                self.queue.call("cuEventRecord", event, self.streams[self.last[buffer]])
                self.queue.call("cuStreamWaitEvent", self.streams[number], event, 0)
            self.last[buffer] = number

    def step(self):
        number, to, source = self.rng.integers(0, 4, 3)
        stream = self.streams[number]
        self.order(number, to, source)
        if to == source:
            self.queue.add(self.buffers[to], 3, stream)
            self.values[to] += 3
        else:
            buffers = (self.buffers[to], self.buffers[source])
            self.queue.launch("double_into", *buffers, np.int32(N), stream=stream)
            self.values[to] += self.values[source]
        self.values[to] %= 2**32


@pytest.mark.parametrize("seed", range(12))
def test_ordered_work_comes_out_as_if_done_at_once(queue, seed):
    simt.set_seed(seed)
    work = Ordered(queue, np.random.default_rng(seed))
    for _ in range(60):
        work.step()
    queue.synchronize()
    assert [queue.read(buffer) % 2**32 for buffer in work.buffers] == work.values.tolist()


def test_threads_have_contexts_of_their_own(queue, plain):
    image = plain("driver.cu")
    results = {}

    def use(number):
        device = type(queue.device)(queue.device.driver)
        mine = Queue(device, image)
        buffer = mine.buffer(number)
        for _ in range(50):
            mine.add(buffer, number)
        results[number] = mine.read(buffer)
        device.close()

    threads = [threading.Thread(target=use, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {number: 51 * number for number in range(1, 5)}
