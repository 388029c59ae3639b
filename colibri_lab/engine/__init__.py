"""The CPU engine: experts grouped by token, an expert cache, streams."""

from .engine import Engine
from .stats import EngineStats

__all__ = ["Engine", "EngineStats"]
