"""What the engine accepts: counts, lengths and the caller's own arrays."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any

import numpy as np

from ..capacity import Capacity
from ..errors import InputError, ShapeError


def check_counts(**counts: Any) -> None:
    """InputError where one is no whole number of 1 or more."""
    for name, value in counts.items():
        if not _is_whole(value) or value < 1:
            raise InputError(
                f"{name} must be a positive whole number", expected="1 or more", found=value
            )


def check_capacity(capacity: Any) -> Capacity:
    """The capacity policy; InputError for anything else, such as its spelling."""
    if not isinstance(capacity, Capacity):
        raise InputError(
            "capacity is no Capacity",
            expected="a Capacity",
            found=repr(capacity),
            hint="Capacity.parse reads a spelling such as 'hard:1.0'",
        )
    return capacity


def check_lengths(lengths: Any, max_batch_size: int, max_seq_len: int) -> int:
    """The sum of the lengths; ShapeError where there are too many, or one is out of range.

    lengths : tokens a sequence, whole numbers from 1 to max_seq_len.
    """
    if not isinstance(lengths, Sequence | np.ndarray) or not all(map(_is_whole, lengths)):
        raise ShapeError(
            "lengths must be a list of whole numbers", expected="for example [3, 5]", found=lengths
        )
    if len(lengths) > max_batch_size:
        raise ShapeError(
            "the batch is over max_batch_size",
            expected=f"at most {max_batch_size} lengths",
            found=len(lengths),
            hint="open the engine with a larger max_batch_size",
        )
    wrong = [int(length) for length in lengths if not 1 <= length <= max_seq_len]
    if wrong:
        raise ShapeError("a length is out of range", expected=f"1 to {max_seq_len}", found=wrong[0])
    return sum(map(int, lengths))


def check_array(name: str, array: Any, *shapes: tuple[int, ...]) -> None:
    """ShapeError where it is no contiguous float32 array of one of the shapes."""
    if not isinstance(array, np.ndarray) or array.shape not in shapes:
        raise ShapeError(
            f"{name} has a wrong shape",
            expected=f"an array of {' or '.join(map(str, shapes))}",
            found=array.shape if isinstance(array, np.ndarray) else type(array).__name__,
        )
    if array.dtype != np.float32 or not array.flags.c_contiguous:
        raise ShapeError(
            f"{name} must be contiguous float32",
            expected="C-contiguous float32",
            found=f"{array.dtype}, strides {array.strides}",
            hint="numpy.ascontiguousarray(x, numpy.float32)",
        )


def check_finite(array: np.ndarray[Any, Any]) -> None:
    """InputError where hidden_states have NaN or infinity: no router can rank them."""
    if not np.isfinite(array).all():
        raise InputError(
            "hidden_states have values that are not finite",
            expected="finite values",
            found=f"{np.count_nonzero(~np.isfinite(array))} NaN or infinity",
        )


def check_out(out: Any, hidden_states: np.ndarray[Any, Any]) -> None:
    """ShapeError where the result cannot be written there while hidden_states are still read."""
    check_array("out", out, hidden_states.shape)
    if not out.flags.writeable:
        raise ShapeError("out is read-only", expected="a writeable array", found="read-only")
    # Both are contiguous, so overlapping bounds are overlapping memory.
    if np.may_share_memory(out, hidden_states):
        raise ShapeError(
            "hidden_states and out share memory",
            expected="arrays apart: the result is written while the input is still read",
            found="overlapping arrays",
            hint="give another out; pass a copy of get_output() where it is the next input",
        )


def _is_whole(value: Any) -> bool:
    try:
        index(value)
    except TypeError:
        return False
    return True
