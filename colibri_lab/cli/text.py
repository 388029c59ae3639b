"""Text that a user gives: from a file or standard input, as UTF-8."""

from __future__ import annotations

import sys
from pathlib import Path

from ..errors import InputError


def read_text(path: Path) -> str:
    """The text of a file, or of standard input for ``-``; InputError where it is not UTF-8."""
    try:
        data = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    except OSError as error:
        raise InputError("the text cannot be read", path=path, found=error.strerror) from error
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            "the text is not UTF-8",
            path=path,
            offset=error.start,
            expected="UTF-8",
            found=f"byte 0x{data[error.start]:02x}: {error.reason}",
            hint="convert it, for example with: iconv -f latin1 -t utf-8",
        ) from error
