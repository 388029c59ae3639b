"""What commands print: results on standard output, all else on standard error."""

from __future__ import annotations

import io
import json
import math
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

from ..errors import ColibriError


def print_json(document: Any) -> None:
    """One JSON document on standard output; not-a-number and infinity become null."""
    plain = _plain(document)
    text = json.dumps(plain, indent=2, ensure_ascii=False, default=str)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:  # a terminal of few characters, or a path that is not UTF-8
        text = json.dumps(plain, indent=2, default=str)
    print(text)


def open_streams() -> None:
    """Make printing safe: closed streams swallow, and what cannot be encoded is escaped."""
    for name, mode in {"stdin": "r", "stdout": "w", "stderr": "w"}.items():
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
        elif mode == "w" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def abandon_stdout() -> None:
    """Nobody reads it, or it is full: Python would complain once more at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_error(error: Exception, as_json: bool) -> None:
    """The error, as JSON on standard output or in words on standard error."""
    if as_json:
        print_json({"error": _as_dict(error)})
    elif isinstance(error, ColibriError):
        print(f"error: {error}", file=sys.stderr)
    else:
        print(f"error: {_in_words(error)}", file=sys.stderr)


def print_table(
    header: Sequence[str], rows: Iterable[Sequence[Any]], file: TextIO | None = None
) -> None:
    """Columns of equal width, numbers to the right; on standard output unless told."""
    cells = [list(header), *([_cell(value) for value in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for index, row in enumerate(cells):
        aligned = map(_aligned, row, widths)
        print("  ".join(aligned).rstrip(), file=file)
        if index == 0:
            print("  ".join("-" * width for width in widths), file=file)


def note(text: str) -> None:
    """A line for the reader, on standard error."""
    print(text, file=sys.stderr)


def _aligned(text: str, width: int) -> str:
    is_number = text.lstrip("-+")[:1].isdigit()
    return text.rjust(width) if is_number else text.ljust(width)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "-" if math.isnan(value) else f"{value:.4g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "-" if value is None else str(value)


def _as_dict(error: Exception) -> dict[str, Any]:
    if isinstance(error, ColibriError):
        return error.as_dict()
    found = {"type": type(error).__name__, "message": _in_words(error)}
    path = getattr(error, "filename", None)
    return found if path is None else {**found, "path": str(path)}


def _in_words(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return "there is not enough memory"
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.strerror}: {error.filename}"
    return str(error) or type(error).__name__


def _plain(value: Any) -> Any:
    """The same document with what JSON cannot say said otherwise."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):  # NumPy's arrays and numbers
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
