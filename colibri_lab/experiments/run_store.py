"""The run folder, as the sweep writes it.

manifest.json    what was run, where, and what could not be measured
records.jsonl    one line a finished cell, on disk before the next one starts
samples/ID.npz   a cell's latency samples and its detail by layer
inputs.npz       the hidden states that every cell is given
perplexity.json  one value a (top_k, capacity)
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ..errors import RunError
from . import records
from .files import append_line, locked, make_folder, write_arrays, write_whole, writing

MANIFEST_NAME = "manifest.json"
SAMPLES_NAME = "samples"
PERPLEXITY_NAME = "perplexity.json"

# What a resumed run must share with the run in the folder: manifest key -> what it is called.
SAME = {
    "schema_version": "schema version",
    "model_fingerprint": "model",
    "hardware_key": "host",
    "inputs_key": "inputs",
}
_HINTS = {
    "schema_version": "run into a new folder: records of two schema versions do not mix",
    "model_fingerprint": "run into a new folder, or give the model that this run measured",
    "hardware_key": "run into a new folder: latencies of two hosts do not mix",
    "inputs_key": "run into a new folder, or give the texts, kind of input and seed of this run",
}


def utc_now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def new_run_id() -> str:
    """The time, and a little chance for runs that start in the same second."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{os.urandom(3).hex()}"


@dataclass
class RunStore:
    """An open run folder; the only writer of it.  Use `open_store`."""

    folder: Path
    manifest: dict[str, Any]

    def save_manifest(self, **changes: Any) -> None:
        """Update the manifest on disk, whole or not at all."""
        self.manifest |= changes
        self.manifest["updated_utc"] = utc_now()
        _write_json(self.folder / MANIFEST_NAME, self.manifest)

    def add(self, record: dict[str, Any], arrays: Mapping[str, NDArray[Any]] | None) -> None:
        """Put a finished cell on disk, samples first, so that no record lacks its samples."""
        if arrays is not None:
            write_arrays(samples_path(self.folder, record["cell_id"]), arrays)
        append_line(self.folder / records.FILE_NAME, records.as_line(record))

    def load_perplexities(self) -> dict[str, float]:
        path = self.folder / PERPLEXITY_NAME
        return dict(read_json(path)) if path.exists() else {}

    def save_perplexities(self, values: Mapping[str, float]) -> None:
        _write_json(self.folder / PERPLEXITY_NAME, values)


@contextmanager
def open_store(folder: Path, identity: Mapping[str, Any], resume: bool) -> Iterator[RunStore]:
    """Lock a run folder, new or to be resumed; RunError where it holds another run.

    identity : the manifest's values of `SAME`.
    """
    make_folder(folder / SAMPLES_NAME)
    with locked(folder):
        path = folder / MANIFEST_NAME
        if path.exists():
            manifest = read_json(path)
            if not resume:
                raise RunError(
                    "there is a run in this folder already",
                    path=folder,
                    expected="a new or empty folder",
                    found=f"a run of {manifest.get('created_utc', 'unknown time')}",
                    hint="resume it, or choose another output folder",
                )
            check_same(manifest, identity, folder)
            _cut_torn_line(folder / records.FILE_NAME)
        else:
            manifest = _new_manifest(folder)
        yield RunStore(folder, {**manifest, **identity})


def finished_cells(folder: Path, tolerance: float) -> set[str]:
    """Cells that are measured: their record says ok and their samples are there, whole.

    tolerance : one whose output is further off is to be measured, and judged, again.
    """
    found, _ = records.read_lines(folder / records.FILE_NAME)
    return {
        cell_id
        for cell_id, record in records.latest(found).items()
        if record["status"] == "ok"
        and records.is_within(record, tolerance)
        and zipfile.is_zipfile(samples_path(folder, cell_id))
    }


def reusable(folder: Path, identity: Mapping[str, Any], tolerance: float) -> set[str]:
    """The finished cells of a folder, none where there is no run; RunError where it is another."""
    path = folder / MANIFEST_NAME
    if not path.exists():
        return set()
    check_same(read_json(path), identity, folder)
    return finished_cells(folder, tolerance)


def _new_manifest(folder: Path) -> dict[str, Any]:
    if (folder / records.FILE_NAME).exists():
        raise RunError(
            "the folder has records but no manifest",
            path=folder,
            expected=f"{MANIFEST_NAME} beside {records.FILE_NAME}",
            hint="choose another output folder",
        )
    return {"run_id": new_run_id(), "created_utc": utc_now(), "sessions": []}


def check_same(manifest: Mapping[str, Any], identity: Mapping[str, Any], folder: Path) -> None:
    """RunError where a run in a folder is of another model, host, schema or input."""
    for key, name in SAME.items():
        if manifest.get(key) != identity[key]:
            raise RunError(
                f"the run in this folder is of another {name}",
                path=folder,
                expected=identity[key],
                found=manifest.get(key),
                hint=_HINTS[key],
            )


def samples_path(folder: Path, cell_id: str) -> Path:
    return folder / SAMPLES_NAME / f"{cell_id}.npz"


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object of a run folder; RunError where it is none."""
    try:
        contents = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise RunError("the run cannot be read", path=path, found=str(error)) from error
    if not isinstance(contents, dict):
        raise RunError(
            "the run cannot be read", path=path, expected="a JSON object", found=type(contents)
        )
    return contents


def _write_json(path: Path, contents: Mapping[str, Any]) -> None:
    text = json.dumps(contents, indent=2, ensure_ascii=False, allow_nan=False)
    write_whole(path, text.encode() + b"\n")


def _cut_torn_line(path: Path) -> None:
    """Remove what a killed writer left at the end, so that new lines start on their own."""
    _, length = records.read_lines(path)
    if path.exists() and path.stat().st_size > length:
        with writing(path):
            os.truncate(path, length)
