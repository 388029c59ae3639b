"""Measure one cell: check the output first, then time it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..capacity import Capacity
from ..config import HardwareSpec
from ..errors import CheckFailed, ColibriError
from ..profiling.timing import percentiles, time_calls
from ..reference import Decoder
from ..reference.metrics import entropy_bits, max_over_mean
from ..reference.weights import Array
from .backends import BACKENDS, CacheCounts, Runner
from .grid import Cell
from .inputs import Inputs
from .limits import Limits, below_floor
from .manifest import model_name
from .perplexity import PerplexityTable
from .progress import Stopped, check
from .records import blank_record
from .reference_runs import (
    RoutingSummary,
    capacity_error,
    layer_errors,
    run_layers,
    summarise_routing,
)
from .run_store import utc_now

CAPACITY_CALLS = 16  # the most that capacity_rel_error is taken over: each runs the reference twice

Arrays = dict[str, NDArray[Any]]
Calls = Sequence[NDArray[np.float32]]


@dataclass(frozen=True)
class Settings:
    """How every cell is measured.

    warmup : calls before the timed ones; each is checked against the reference.
    tolerance : relative error over which a cell fails.   blas_threads : pinned while it runs.
    """

    repeats: int = 100
    warmup: int = 3
    blas_threads: int = 1
    tolerance: float = 1e-4


@dataclass(frozen=True)
class Bench:
    """What the cells of a run share, with what is worked out once for several of them."""

    decoder: Decoder
    inputs: Inputs
    settings: Settings
    limits: Limits
    perplexities: PerplexityTable
    _quality: dict[tuple[Any, ...], tuple[RoutingSummary, float]] = field(default_factory=dict)

    def calls(self, cell: Cell, cancel: threading.Event | None) -> Calls:
        """The warm-up calls, then the timed ones."""
        count = self.settings.warmup + self.settings.repeats
        return self.inputs.calls(count, cell.batch_size, cell.seq_len, cancel)

    def quality(
        self, cell: Cell, calls: Calls, cancel: threading.Event | None
    ) -> tuple[RoutingSummary, float]:
        """Routing of the timed calls, and capacity_rel_error of some of them."""
        key = (cell.batch_size, cell.seq_len, cell.top_k, cell.capacity)
        if key not in self._quality:
            capacity, timed = Capacity.parse(cell.capacity), calls[self.settings.warmup :]
            some = timed[:: -(-len(timed) // CAPACITY_CALLS)]
            self._quality[key] = (
                summarise_routing(self.decoder, timed, cell.top_k, capacity, cancel),
                capacity_error(self.decoder, some, cell.top_k, capacity, cancel),
            )
        return self._quality[key]

    def floor(
        self, cell: Cell, routing: RoutingSummary, hardware: HardwareSpec | None
    ) -> dict[str, Any]:
        """The columns of the roofline.   hardware : of the device; None: measured here."""
        held = self.decoder.weights.embedding.itemsize
        weight_bytes = BACKENDS[cell.backend].weight_bytes or held
        return self.limits.columns(
            routing, cell.num_tokens, cell.stream_count, weight_bytes, hardware
        )


def measure(
    cell: Cell, bench: Bench, identity: dict[str, Any], cancel: threading.Event | None = None
) -> tuple[dict[str, Any], Arrays | None]:
    """A cell's record and arrays; whatever goes wrong in it becomes a failed record.

    identity : the columns that are known before, such as run_id and cell_id.
    Raises Stopped where `cancel` is set.
    """
    record = {**blank_record(), **identity, **configuration(cell, bench)}
    record["started_utc"], started_s = utc_now(), time.perf_counter()
    arrays: Arrays | None = None
    try:
        results, arrays = _measure(cell, bench, record, cancel)
        record |= {**results, "status": "ok"}
    except Stopped:
        raise
    except Exception as error:
        record |= {"status": "failed", "error": _in_words(error)}
    record["duration_s"] = round(time.perf_counter() - started_s, 4)
    return record, arrays


def configuration(cell: Cell, bench: Bench) -> dict[str, Any]:
    """The columns that say what was run."""
    backend, capacity = BACKENDS[cell.backend], Capacity.parse(cell.capacity)
    limited = capacity.kind != "none"
    return {
        **cell.as_dict(),
        "model": model_name(bench.decoder),
        "device": None,
        "emulated": None,
        "dtype": backend.dtype,
        "residency": backend.residency,
        "capacity_policy": capacity.kind,
        "capacity_factor": capacity.factor if limited else None,
        "capacity_overflow": capacity.overflow if limited else None,
        "inputs": bench.inputs.kind,
        "blas_threads": bench.settings.blas_threads,
        "warmup": bench.settings.warmup,
        "repeats": bench.settings.repeats,
    }


def _measure(
    cell: Cell, bench: Bench, record: dict[str, Any], cancel: threading.Event | None
) -> tuple[dict[str, Any], Arrays]:
    calls, warmup = bench.calls(cell, cancel), bench.settings.warmup
    capacity = Capacity.parse(cell.capacity)
    routing, record["capacity_rel_error"] = bench.quality(cell, calls, cancel)
    record |= _routing_columns(routing)
    record["perplexity"] = bench.perplexities.of(cell.top_k, capacity, cancel)
    with BACKENDS[cell.backend].open(cell, bench.decoder, bench.settings.blas_threads) as runner:
        lengths = [cell.seq_len] * cell.batch_size
        device = runner.device()
        record |= {"device": device.name, "emulated": device.emulated}
        for call in calls[:warmup]:
            _run(runner, call, lengths, cancel)
            _check_output(runner, call, cell, bench, record)
        runner.reset_counts()
        latency_ns = _time_calls(runner, calls[warmup:], lengths, cancel)
        counts = runner.counts()
        _check_output(runner, calls[-1], cell, bench, record)
        observed = runner.observe(calls[-1], lengths)
    results = {
        **_cache_columns(counts, len(latency_ns)),
        **bench.floor(cell, routing, device.hardware),
        **observed,
    }
    if device.emulated:  # its times mean nothing, and are not kept
        return results, _arrays(None, routing, counts)
    results |= _latency_columns(latency_ns, cell)
    results["warning"] = below_floor(results["latency_p50_ms"], results["roofline_floor_ms"])
    return results, _arrays(latency_ns, routing, counts)


def _run(
    runner: Runner, call: Array, lengths: Sequence[int], cancel: threading.Event | None
) -> None:
    check(cancel)
    runner.set_input(call, lengths)
    runner.infer()


def _time_calls(
    runner: Runner, calls: Calls, lengths: Sequence[int], cancel: threading.Event | None
) -> NDArray[np.int64]:
    """[calls] int64 nanoseconds of each infer(), without the checks of its input."""

    def given() -> Iterator[None]:
        for call in calls:
            check(cancel)
            runner.set_input(call, lengths)
            yield

    return time_calls(lambda _: runner.infer(), given())


def _check_output(
    runner: Runner, call: Array, cell: Cell, bench: Bench, record: dict[str, Any]
) -> None:
    """Hold the last output against the reference; keep the worst error in the record."""
    expected = run_layers(bench.decoder, call, cell.top_k, Capacity.parse(cell.capacity))
    errors = layer_errors(runner.get_output(), expected)
    worst = float(np.nan_to_num(errors, nan=np.inf).max())
    record["output_rel_error"] = max(worst, record["output_rel_error"] or 0.0)
    if worst > bench.settings.tolerance:
        raise CheckFailed(
            f"the output of layer {int(errors.argmax())} differs from the reference",
            expected=f"a relative error of at most {bench.settings.tolerance:g}",
            found=f"{worst:.3g}",
            hint="no latency is recorded for a wrong result",
        )


def _routing_columns(routing: RoutingSummary) -> dict[str, Any]:
    return {
        "expert_load_max_over_mean": float(max_over_mean(routing.expert_load).mean()),
        "routing_entropy": float(entropy_bits(routing.expert_load).mean()),
        "active_experts": float(routing.active.mean()),
        "dropped_fraction": routing.dropped_fraction,
        "moved_fraction": routing.moved_fraction,
    }


def _latency_columns(latency_ns: NDArray[np.int64], cell: Cell) -> dict[str, Any]:
    p50, p90, p99 = percentiles(latency_ns / 1e9)
    return {
        "latency_p50_ms": p50 * 1e3,
        "latency_p90_ms": p90 * 1e3,
        "latency_p99_ms": p99 * 1e3,
        "tokens_per_s": cell.num_tokens / p50,
    }


def _cache_columns(counts: CacheCounts | None, requests: int) -> dict[str, Any]:
    if counts is None:
        return {}
    return {
        "expert_miss_ratio": counts.miss_ratio,
        "expert_loads_per_request": counts.loads / requests,
        "expert_bytes_read": counts.bytes_read / requests,
    }


def _arrays(
    latency_ns: NDArray[np.int64] | None, routing: RoutingSummary, counts: CacheCounts | None
) -> Arrays:
    arrays: Arrays = {
        "expert_load": routing.expert_load,
        "entropy_bits": entropy_bits(routing.expert_load),
        "active_experts": routing.active,
        "dropped_fraction": routing.dropped / routing.assignments,
        "moved_fraction": routing.moved / routing.assignments,
    }
    if latency_ns is not None:
        arrays["latency_ns"] = latency_ns
    if counts is not None:
        arrays |= {
            "misses": counts.misses,
            "lookups": counts.lookups,
            "miss_ratio": counts.misses / np.maximum(counts.lookups, 1),
        }
    return arrays


def _in_words(error: Exception) -> str:
    return str(error) if isinstance(error, ColibriError) else f"{type(error).__name__}: {error}"
