"""The backends that a sweep can measure, behind one small interface."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..capacity import Capacity
from ..config import HardwareSpec
from ..engine import Engine
from ..engine.calls import LayerCalls
from ..reference import Decoder
from ..reference.weights import Array
from .reference_runs import run_layers

if TYPE_CHECKING:
    from ..engine.cuda import CudaEngine
    from .grid import Cell


@dataclass(frozen=True)
class CacheCounts:
    """What an expert cache did since the counters were last reset.

    misses, lookups : [L] int64.   loads : experts read in.   bytes_read : of them, as stored.
    """

    misses: NDArray[np.int64]
    lookups: NDArray[np.int64]
    loads: int
    bytes_read: int

    @property
    def miss_ratio(self) -> float:
        return float(self.misses.sum() / max(self.lookups.sum(), 1))


class Runner(Protocol):
    """A backend that is open for one cell."""

    def set_input(self, hidden_states: Array, lengths: Sequence[int]) -> None:
        """hidden_states : [L, T, H] float32, the recorded input of every MoE layer."""

    def infer(self) -> None:
        """Run every MoE layer: the call that is timed."""

    def get_output(self) -> Array:
        """[L, T, H] of the last call."""

    def reset_counts(self) -> None: ...

    def counts(self) -> CacheCounts | None:
        """Of the expert cache, None where there is none."""

    def device(self) -> DeviceFacts:
        """What computes; asked once the runner is open."""

    def observe(self, hidden_states: Array, lengths: Sequence[int]) -> dict[str, Any]:
        """Columns of counters of one call, where the device is emulated; else none."""


@dataclass(frozen=True)
class DeviceFacts:
    """name : of the device.   emulated : its times mean nothing.
    hardware : its published limits; None: measure this machine's."""

    name: str = "cpu"
    emulated: bool = False
    hardware: HardwareSpec | None = None


@dataclass(frozen=True)
class Backend:
    """One way to compute MoE layers.

    weight_bytes : bytes a weight takes where it is computed with; None: as the decoder holds it.
    open : (cell, decoder, blas_threads) -> context manager of a Runner.
    """

    dtype: str
    weight_bytes: int | None
    has_expert_cache: bool
    residency: str
    open: Callable[[Cell, Decoder, int], AbstractContextManager[Runner]]


class _OnCpu:
    """What runners on the CPU have in common."""

    def device(self) -> DeviceFacts:
        return DeviceFacts()

    def observe(self, hidden_states: Array, lengths: Sequence[int]) -> dict[str, Any]:
        del hidden_states, lengths
        return {}


class NumPyRunner(_OnCpu):
    """The reference, one layer after the other."""

    def __init__(self, decoder: Decoder, top_k: int, capacity: Capacity) -> None:
        self._decoder, self._top_k, self._capacity = decoder, top_k, capacity
        self._input: Array = np.empty((0, 0, 0))
        self._output: Array = self._input

    def set_input(self, hidden_states: Array, lengths: Sequence[int]) -> None:
        del lengths  # the reference takes any
        self._input = hidden_states

    def infer(self) -> None:
        self._output = run_layers(self._decoder, self._input, self._top_k, self._capacity)

    def get_output(self) -> Array:
        return self._output

    def reset_counts(self) -> None:
        pass

    def counts(self) -> None:
        return None


@contextmanager
def pinned_blas(threads: int) -> Iterator[None]:
    """Let BLAS use so many threads: for small matrices more are slower, and by far where busy."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(threads, user_api="blas"):
        yield


@contextmanager
def open_numpy(cell: Cell, decoder: Decoder, blas_threads: int) -> Iterator[Runner]:
    with pinned_blas(blas_threads):
        yield NumPyRunner(decoder, cell.top_k, Capacity.parse(cell.capacity))


class EngineRunner(_OnCpu):
    """An engine, with its counters in the sweep's terms."""

    def __init__(self, engine: LayerCalls) -> None:
        self._engine = engine
        self.set_input = engine.set_input
        self.infer = engine.infer
        self.get_output = engine.get_output
        self.reset_counts = engine.reset_stats

    def counts(self) -> CacheCounts:
        stats = self._engine.stats
        misses = stats.misses.sum(axis=1)
        return CacheCounts(
            misses=misses,
            lookups=misses + stats.hits.sum(axis=1),
            loads=int(stats.loads.sum()),
            bytes_read=int(stats.bytes_read.sum()),
        )


@contextmanager
def open_engine(cell: Cell, decoder: Decoder, blas_threads: int) -> Iterator[Runner]:
    with Engine.open(
        decoder.path,
        max_batch_size=cell.batch_size,
        max_seq_len=cell.seq_len,
        expert_cache_size=cell.expert_cache_slots,
        cache_policy=cell.cache_policy,
        stream_count=cell.stream_count,
        blas_threads=blas_threads,
        top_k=cell.top_k,
        capacity=Capacity.parse(cell.capacity),
    ) as engine:
        yield EngineRunner(engine)


class CudaRunner(EngineRunner):
    """The CUDA engine; on the emulated device one call more is observed access by access."""

    def __init__(self, engine: CudaEngine, options: dict[str, Any], path: str) -> None:
        super().__init__(engine)
        self._engine_facts = (engine.device_name, engine.emulated)
        self._options, self._path = options, path

    def device(self) -> DeviceFacts:
        name, emulated = self._engine_facts
        return DeviceFacts(name, emulated, _published(name) if emulated else None)

    def observe(self, hidden_states: Array, lengths: Sequence[int]) -> dict[str, Any]:
        from .. import simt
        from ..engine.cuda import CudaEngine

        if not self.device().emulated:
            return {}
        # Kernels are compiled anew in here, so that their accesses are seen.
        with (
            simt.observe(memory=False, races=False) as seen,
            CudaEngine.open(self._path, **self._options) as engine,
        ):
            engine.set_input(hidden_states, lengths)
            engine.infer()
        totals = [seen.totals(kernel.name) for kernel in seen.kernels]
        requests = sum(each["global_requests"] for each in totals)
        sectors = sum(each["sectors"] for each in totals)
        return {
            "device_bytes_moved": float(sum(each["global_bytes"] for each in totals)),
            "device_dram_bytes": float(sum(each["dram_bytes"] for each in totals)),
            "device_sectors_per_request": sectors / requests if requests else None,
            "device_bank_conflicts": float(sum(each["bank_conflicts"] for each in totals)),
        }


def _published(device_name: str) -> HardwareSpec | None:
    """Limits of the GPU that is emulated, from its data sheet."""
    from ..simt.gpus import GPUS

    for gpu in GPUS.values():
        if gpu.device_name == device_name:
            gflops = gpu.fp32_tflops * 1e3
            return HardwareSpec(gpu.name, gpu.bandwidth_gbps, gflops, "NVIDIA's data sheet")
    return None


@contextmanager
def open_cuda(cell: Cell, decoder: Decoder, blas_threads: int) -> Iterator[Runner]:
    from ..engine.cuda import CudaEngine

    del blas_threads  # products are the device's
    options: dict[str, Any] = {
        "max_batch_size": cell.batch_size,
        "max_seq_len": cell.seq_len,
        "expert_cache_size": cell.expert_cache_slots,
        "cache_policy": cell.cache_policy,
        "stream_count": cell.stream_count,
        "top_k": cell.top_k,
        "capacity": Capacity.parse(cell.capacity),
    }
    with CudaEngine.open(decoder.path, **options) as engine:
        yield CudaRunner(engine, options, decoder.path)


BACKENDS = {
    "cpu": Backend("float32", 4, True, "slots", open_engine),
    "numpy": Backend("float64", None, False, "memory", open_numpy),
    "cuda": Backend("float32", 4, True, "device slots", open_cuda),
}
