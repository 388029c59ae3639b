"""Routing traces on disk."""

from .parquet import read_trace, write_trace

__all__ = ["read_trace", "write_trace"]
