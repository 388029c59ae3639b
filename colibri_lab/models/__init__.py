"""Checkpoints of the model families, read into the reference's own shapes."""

from .checkpoint import Checkpoint, load_config, open_checkpoint
from .convert import Conversion, convert
from .load import load_model

__all__ = [
    "Checkpoint",
    "Conversion",
    "convert",
    "load_config",
    "load_model",
    "open_checkpoint",
]
