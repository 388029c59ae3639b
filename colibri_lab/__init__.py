"""A workbench for mixture-of-experts inference; the names below are the front door.

Nothing is imported before it is used, so ``import colibri_lab`` costs next to nothing.
"""

from __future__ import annotations

__version__ = "0.1.0.dev0"
