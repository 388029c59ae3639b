"""Traces of other engines, one module a format, recognised by what the file holds."""

from .histogram import ExpertHistogram
from .registry import FORMATS, import_any, import_trace

__all__ = ["FORMATS", "ExpertHistogram", "import_any", "import_trace"]
