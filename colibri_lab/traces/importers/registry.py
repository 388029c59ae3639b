"""Which importer reads a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ...errors import InputError, TraceError
from ...reference.trace import RoutingTrace
from ..parquet import read_trace
from . import bigmoe

HEAD_BYTES = 4096


@dataclass(frozen=True)
class TraceFormat:
    """recognise(first bytes) says whether a file is of this format; read(path) reads it."""

    name: str
    recognise: Callable[[bytes], bool]
    read: Callable[[Path], RoutingTrace]


FORMATS = {
    found.name: found
    for found in (
        TraceFormat("colibri-lab", lambda head: head[:4] == b"PAR1", read_trace),
        TraceFormat("bigmoe", bigmoe.recognise, bigmoe.read),
    )
}


def import_trace(path: str | Path, name: str = "auto") -> RoutingTrace:
    """Read a trace of a known format.

    name : of the format, or ``auto`` to recognise it by content.
    Raises TraceError where it is none of them or malformed, InputError for an unknown name.
    """
    path = Path(path)
    if name != "auto":
        if name not in FORMATS:
            raise InputError(
                "the trace format is not known", expected=f"auto, {', '.join(FORMATS)}", found=name
            )
        return FORMATS[name].read(path)
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    for known in FORMATS.values():
        if known.recognise(head):
            return known.read(path)
    raise TraceError(
        "the file is of no known trace format",
        path=path,
        expected=", ".join(FORMATS),
        found=repr(head[:40]),
    )
