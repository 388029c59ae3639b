"""Routing traces on disk."""

from .importers import import_trace
from .parquet import read_trace, write_trace

__all__ = ["import_trace", "read_trace", "write_trace"]
