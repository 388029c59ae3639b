"""The engine on a CUDA device, a GPU's or the emulated one."""

from .engine import CudaEngine

__all__ = ["CudaEngine"]
