"""The analysis' functions in libcuda.so.1."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Iterable
from functools import cache

BITS = {"counters": 1, "memory": 2, "races": 4}


@cache
def library() -> ctypes.CDLL:
    """The loaded emulated driver.

    raises : RuntimeError where it is not loaded.
    """
    loaded = ctypes.CDLL(None)
    try:
        loaded.simt_analysis_results.restype = ctypes.c_void_p
    except AttributeError:
        message = "the emulated driver is not loaded: call colibri_lab.simt.enable() first"
        raise RuntimeError(message) from None
    loaded.simt_analysis_lines.restype = ctypes.c_void_p
    loaded.simt_analysis_free.argtypes = [ctypes.c_void_p]
    loaded.simt_analysis_l2.argtypes = [ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint32]
    loaded.simt_analysis_steps.argtypes = [ctypes.c_size_t]
    return loaded


def _taken(pointer: int) -> str:
    try:
        return ctypes.string_at(pointer).decode(errors="replace")
    finally:
        library().simt_analysis_free(pointer)


def set_mode(names: Iterable[str]) -> None:
    library().simt_analysis_set(sum(BITS[name] for name in names))


def mode() -> tuple[str, ...]:
    bits = library().simt_analysis_mode()
    return tuple(name for name, bit in BITS.items() if bits & bit)


def clear() -> None:
    library().simt_analysis_clear()


def results() -> str:
    return _taken(library().simt_analysis_results())


def set_l2(l2_bytes: int, ways: int, multiprocessors: int) -> None:
    """Chooses the L2 of the model, and empties it."""
    library().simt_analysis_l2(l2_bytes, ways, multiprocessors)


def set_steps(wanted: int) -> None:
    """How many requests of block 0 are kept, lane by lane, of each kernel's first launch."""
    library().simt_analysis_steps(wanted)


def lines(image_number: int, addresses: list[int]) -> dict[int, str]:
    """`file:line` of instructions in an image."""
    array = (ctypes.c_uint32 * len(addresses))(*(address + 1 for address in addresses))
    found = json.loads(_taken(library().simt_analysis_lines(image_number, array, len(addresses))))
    return {int(key) - 1: text for key, text in found.items()}
