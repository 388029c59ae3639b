"""Traces of other engines, one module a format, recognised by what the file holds."""

from .registry import FORMATS, import_trace

__all__ = ["FORMATS", "import_trace"]
