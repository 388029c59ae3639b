"""Checkpoints of the model families, read into the reference's own shapes."""

from .checkpoint import Checkpoint, load_config, load_model, open_checkpoint

__all__ = ["Checkpoint", "load_config", "load_model", "open_checkpoint"]
