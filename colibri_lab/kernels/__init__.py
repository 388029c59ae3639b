"""The CUDA kernels of MoE inference: sources to read, NumPy twins, a catalogue, and a checker."""

from .catalog import CATALOG, Kernel, find

__all__ = ["CATALOG", "Kernel", "find"]
