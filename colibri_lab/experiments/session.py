"""One session of a sweep: prepare, then run the cells that the folder does not have."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..config import ModelConfig
from ..errors import Interrupted, RunError
from ..profiling.environment import describe, hardware_key
from ..reference import Decoder
from . import records
from .backends import pinned_blas
from .cell import Bench, Settings, measure
from .grid import Cell, Grid
from .identity import code_version, short_hash
from .inputs import Inputs, Needs, capture, check_fit, load_inputs, random_inputs, save_inputs
from .limits import Limits
from .manifest import describe_inputs, describe_request, unavailable
from .perplexity import PerplexityTable
from .progress import Callback, Reporter, Stopped
from .run import Run
from .run_store import RunStore, finished_cells, open_store, utc_now
from .texts import Corpus, Texts, read_corpus


@dataclass(frozen=True)
class Request:
    """What a sweep is asked to do; the fields are those of `Sweep`."""

    load: Callable[[], Decoder]
    config: ModelConfig
    grid: Grid
    settings: Settings
    seed: int
    inputs: str
    texts: Texts | None
    folder: Path

    @cached_property
    def decoder(self) -> Decoder:
        return self.load()

    @cached_property
    def corpus(self) -> Corpus | None:
        """The held-out texts; None where there are none, or none can be read."""
        readable = self.decoder.tokenizer is not None or isinstance(self.texts, Mapping)
        if self.texts is None or (self.inputs != "text" and not readable):
            return None
        return read_corpus(self.texts, self.decoder.tokenizer)

    @cached_property
    def environment(self) -> dict[str, Any]:
        return describe()

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What a run folder must agree with; see `run_store.SAME`."""
        digest = self.corpus.digest if self.corpus and self.inputs == "text" else str(self.seed)
        return {
            "schema_version": records.SCHEMA_VERSION,
            "model_fingerprint": self.decoder.fingerprint,
            "hardware_key": hardware_key(self.environment),
            "inputs_key": f"{self.inputs}:{digest}",
        }

    @property
    def needs(self) -> Needs:
        cells = self.grid.cells()
        return Needs(
            batch_size=max(cell.batch_size for cell in cells),
            seq_len=max(cell.seq_len for cell in cells),
            num_calls=self.settings.warmup + self.settings.repeats,
        )

    def cell_id(self, cell: Cell) -> str:
        """The same for the same configuration, model, inputs, code and hardware.

        The tolerance is no part of it: it judges a measurement, and does not change it.
        """
        settings = asdict(self.settings)
        del settings["tolerance"]
        return short_hash(
            {
                **cell.as_dict(),
                **settings,
                **self.identity,
                "code_version": code_version(),
            }
        )

    def columns(self, cell: Cell, run_id: str) -> dict[str, Any]:
        """The columns that say which measurement a record is."""
        return {
            "run_id": run_id,
            "cell_id": self.cell_id(cell),
            "code_version": code_version(),
            "hardware_key": self.identity["hardware_key"],
        }

    def order(self) -> list[Cell]:
        """The cells, shuffled with the seed, so that a drift of the machine hits no axis alone."""
        cells = self.grid.cells()
        shuffled = np.random.default_rng(self.seed).permutation(len(cells))
        return [cells[index] for index in shuffled]


def execute(
    request: Request,
    progress: Callback | None = None,
    cancel: threading.Event | None = None,
    resume: bool = True,
) -> Run:
    """Run a sweep; see `Sweep.run`."""
    with (
        pinned_blas(request.settings.blas_threads),
        open_store(request.folder, request.identity, resume) as store,
    ):
        finished = finished_cells(request.folder, request.settings.tolerance)
        todo = [cell for cell in request.order() if request.cell_id(cell) not in finished]
        total = len(request.grid.cells())
        reporter = Reporter(total, total - len(todo), progress)
        with _recorded(store, request, reporter):
            _run_cells(request, store, todo, reporter, cancel)
    return Run(request.folder)


@contextmanager
def _recorded(store: RunStore, request: Request, reporter: Reporter) -> Iterator[None]:
    """Keep the manifest true to what becomes of the session."""
    started = {"started_utc": utc_now(), "code_version": code_version()}
    earlier = store.manifest["sessions"]

    def save(status: str) -> None:
        counts = {"reused": reporter.reused, "ran": reporter.ran, "failed": reporter.failed}
        session = {**started, "ended_utc": utc_now(), "status": status, **counts}
        store.save_manifest(
            status=status,
            counts={"cells": reporter.total, **counts},
            sessions=[*earlier, session],
            warnings=_warnings(request.folder),
        )

    store.save_manifest(**describe_request(request))
    save("running")
    try:
        yield
    except Stopped:
        save("cancelled")
        reporter.send("cancelled")
    except KeyboardInterrupt:
        save("interrupted")
        raise Interrupted(
            f"interrupted after {reporter.ran} of {reporter.total - reporter.reused} cells",
            path=request.folder,
            hint="what is finished is kept: resume the run to go on",
        ) from None
    except Exception:
        # The folder itself may be what failed: then the first error is the one to show.
        with suppress(RunError):
            save("failed")
        raise
    else:
        save("done")
        reporter.send("done")


def _warnings(folder: Path) -> list[str]:
    """Of the records that count, each with its cell."""
    return [
        f"cell {record['cell_id']}: {record['warning']}"
        for record in Run(folder).records
        if record["warning"]
    ]


def _run_cells(
    request: Request,
    store: RunStore,
    todo: list[Cell],
    reporter: Reporter,
    cancel: threading.Event | None,
) -> None:
    bench = _prepare(request, store, reporter, cancel)
    for cell in todo:
        reporter.send("cell", cell.label)
        known = len(bench.perplexities.values), len(bench.limits.measured)
        columns = request.columns(cell, store.manifest["run_id"])
        record, arrays = measure(cell, bench, columns, cancel)
        store.add(record, arrays)
        if known != (len(bench.perplexities.values), len(bench.limits.measured)):
            store.save_perplexities(bench.perplexities.values)
            store.save_manifest(hardware=bench.limits.measured)
        reporter.finished(cell.label, record)


def _prepare(
    request: Request, store: RunStore, reporter: Reporter, cancel: threading.Event | None
) -> Bench:
    """The inputs, stored or captured now, and the machine's limits."""
    reporter.send("prepare", "inputs")
    inputs = load_inputs(store.folder)
    if inputs is None:
        inputs = _make_inputs(request, cancel)
        save_inputs(store.folder, inputs)
    check_fit(inputs, request.needs, store.folder)
    perplexities = PerplexityTable(request.decoder, request.corpus, store.load_perplexities())
    measured = store.manifest.get("hardware", {})
    limits = Limits(request.config.moe, request.settings.blas_threads, measured)
    store.save_manifest(
        inputs=describe_inputs(inputs, request.decoder),
        unavailable=unavailable(perplexities, request.grid.axes["backend"]),
        perplexity=perplexities.describe(),
        hardware=limits.measured,
    )
    return Bench(request.decoder, inputs, request.settings, limits, perplexities)


def _make_inputs(request: Request, cancel: threading.Event | None) -> Inputs:
    if request.inputs == "text" and request.corpus is not None:
        return capture(request.decoder, request.corpus, request.needs, cancel)
    return random_inputs(request.decoder, request.needs, request.seed)
