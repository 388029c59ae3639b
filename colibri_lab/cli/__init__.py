"""The command line: ``colibri-lab``, also ``python -m colibri_lab``."""

from .entry import main

__all__ = ["main"]
