"""A run folder, as readers see it."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from ..errors import InputError, RunError
from . import records
from .files import is_locked, read_arrays, write_whole
from .manifest_shape import check_manifest
from .run_store import MANIFEST_NAME, read_json, samples_path

if TYPE_CHECKING:
    import pandas as pd

SETTINGS = ("repeats", "warmup", "blas_threads")  # columns that are the same in all of a session


class Run:
    """The results of a sweep; what is read is what is on disk now, finished or not."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    @classmethod
    def open(cls, folder: str | Path) -> Run:
        """Open a run folder; RunError where there is none that this version can read."""
        run = cls(folder)
        manifest = run.manifest
        version = manifest.get("schema_version")
        if version != records.SCHEMA_VERSION:
            raise RunError(
                "the run is of another schema version",
                path=run.folder / MANIFEST_NAME,
                expected=records.SCHEMA_VERSION,
                found=version,
                hint="read it with the version of colibri_lab that wrote it, or run it again",
            )
        check_manifest(manifest, run.folder / MANIFEST_NAME)
        return run

    @property
    def manifest(self) -> dict[str, Any]:
        """What was run, where, and what could not be measured."""
        path = self.folder / MANIFEST_NAME
        if not path.is_file():
            raise RunError(
                "there is no run here",
                path=self.folder,
                expected=f"a folder with {MANIFEST_NAME}",
                found="a folder without it" if self.folder.is_dir() else "no such folder",
                hint="colibri-lab sweep makes one",
            )
        return read_json(path)

    @property
    def status(self) -> str:
        """running, done, cancelled, interrupted or failed; killed where its writer is gone."""
        status = str(self.manifest.get("status", "running"))  # none before the first session
        return "killed" if status == "running" and not is_locked(self.folder) else status

    @property
    def records(self) -> list[dict[str, Any]]:
        """One record a cell, the last of each, by the code and settings of the run's last session.

        Another number of repeats makes another measurement of the same configuration: of the two,
        tables and figures must show one. An output that was within an earlier session's tolerance
        and is not within the last one's does not count either.
        """
        manifest = self.manifest
        tolerance = manifest["settings"]["tolerance"]
        wanted = {"code_version": manifest["code_version"]}
        wanted |= {name: manifest["settings"][name] for name in SETTINGS}
        found = records.latest(self.history).values()
        return [
            record
            for record in found
            if all(record.get(name) == value for name, value in wanted.items())
            and (record["status"] != "ok" or records.is_within(record, tolerance))
        ]

    @property
    def history(self) -> list[dict[str, Any]]:
        """Every record, with those of earlier code and failures that were run again."""
        return records.read_lines(self.folder / records.FILE_NAME)[0]

    @property
    def frame(self) -> pd.DataFrame:
        """The records as a table; the columns are `records.COLUMNS`."""
        return records.as_frame(self.records)

    def samples(self, cell_id: str) -> dict[str, NDArray[Any]]:
        """A cell's raw samples and detail by layer.

        latency_ns : [repeats] int64.   expert_load : [L, E] int64, all timed calls.
        entropy_bits, dropped_fraction, moved_fraction, miss_ratio : [L] float64.
        misses, lookups : [L] int64.   active_experts : [repeats, L] int64.
        """
        return read_arrays(
            samples_path(self.folder, cell_id),
            f"the samples of cell {cell_id}",
            "only a cell whose status is ok has samples; resume the run to measure it again",
        )

    def export(self, path: str | Path) -> Path:
        """Write the table as .csv or .parquet, by the ending of `path`."""
        path = Path(path)
        buffer = io.BytesIO()
        if path.suffix == ".csv":
            self.frame.to_csv(buffer, index=False)
        elif path.suffix == ".parquet":
            self.frame.to_parquet(buffer, index=False)
        else:
            raise InputError(
                "the kind of export is not known",
                expected="a path that ends in .csv or .parquet",
                found=str(path),
            )
        write_whole(path, buffer.getvalue())
        return path

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r})"


def merge_runs(runs: Sequence[Run], *, unlike_hosts: bool = False) -> pd.DataFrame:
    """The tables of several runs as one; `run_id` tells them apart.

    unlike_hosts : allow runs of different hosts, whose latencies do not compare.
    """
    import pandas as pd

    if not runs:
        raise InputError("there are no runs to merge", expected="one run or more")
    hosts = {run.manifest["hardware_key"] for run in runs}
    if len(hosts) > 1 and not unlike_hosts:
        raise RunError(
            "the runs are of different hosts",
            expected="runs of one host",
            found=", ".join(sorted(hosts)),
            hint="pass unlike_hosts=True, and compare no latencies across hosts",
        )
    return pd.concat([run.frame for run in runs], ignore_index=True)
