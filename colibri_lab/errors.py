"""Errors that say what is wrong, where, what was expected, what was found, and what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any


class ColibriError(Exception):
    """Base of every error that the project raises on purpose.

    message : what went wrong, one sentence.
    path, offset : where, as a file and a byte offset, if it is about a file.
    expected, found : what the check wanted and what it saw.
    hint : what to do next.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str | Path | None = None,
        offset: int | None = None,
        expected: Any = None,
        found: Any = None,
        hint: str | None = None,
    ) -> None:
        self.message = message
        self.path = None if path is None else str(path)
        self.offset = offset
        self.expected = expected
        self.found = found
        self.hint = hint
        super().__init__(self._text())

    def _text(self) -> str:
        parts = [self.message]
        if self.path is not None:
            where = self.path if self.offset is None else f"{self.path}, byte {self.offset}"
            parts.append(f"  where:    {where}")
        if self.expected is not None:
            parts.append(f"  expected: {self.expected}")
        if self.found is not None:
            parts.append(f"  found:    {self.found}")
        if self.hint is not None:
            parts.append(f"  to do:    {self.hint}")
        return "\n".join(parts)

    def as_dict(self) -> dict[str, Any]:
        """The error as the commands print it under ``--json``; absent fields are left out."""
        fields = {
            "type": type(self).__name__,
            "message": self.message,
            "path": self.path,
            "offset": self.offset,
            "expected": self.expected,
            "found": self.found,
            "hint": self.hint,
        }
        return {name: _plain(value) for name, value in fields.items() if value is not None}

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions with keyword-only arguments do not survive pickling by default,
        # and errors do cross process borders when cells run in workers.
        return (_rebuild, (type(self), self.message, self.__dict__.copy()))


def _rebuild(kind: type[ColibriError], message: str, state: dict[str, Any]) -> ColibriError:
    names = ("path", "offset", "expected", "found", "hint")
    return kind(message, **{name: state[name] for name in names})


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool) else str(value)


class InputError(ColibriError, ValueError):
    """An argument or option has a value that cannot be used."""


class ShapeError(InputError):
    """An array has the wrong shape, dtype or layout."""


class FormatError(ColibriError):
    """A file is not what it should be: short, corrupt, of another version, or incomplete."""


class ModelError(FormatError):
    """A checkpoint cannot be used: architecture unknown, configuration or weights wrong."""


class TraceError(ColibriError):
    """A routing trace is malformed or does not fit the model."""


class RunError(ColibriError):
    """A run folder cannot be read, resumed or written."""


class Interrupted(ColibriError):
    """The user stopped long work with Ctrl-C; what was finished is kept (exit status 130)."""


class WorkFailed(ColibriError):
    """What was asked for went wrong while it ran, through no fault of how it was asked."""


class CheckFailed(ColibriError):
    """A result differs from the reference by more than its tolerance."""


class DeviceUnavailable(ColibriError):
    """The device, driver or library that was asked for is not here."""
