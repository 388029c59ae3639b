"""Holding kernels against their NumPy twins on every edge shape."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .case import SENTINEL, Case
from .catalog import DTYPES, Kernel, Tolerance
from .device import Device, on_device

Array = NDArray[Any]


@dataclass(frozen=True)
class Checked:
    """One kernel on one case.

    worst_error : the largest difference to the float64 twin; of what is equal exactly, 0.
    tolerance : what was allowed where it was largest.   status : passed or failed.
    why : the first fault in words: which array, where, both values, how many.
    """

    name: str
    variant: str
    dtype: str
    shape: str
    worst_error: float
    tolerance: float
    status: str
    why: str = ""


def check(device: Device, kernels: Sequence[Kernel]) -> Iterator[Checked]:
    """Each kernel, dtype and case in turn."""
    for kernel in kernels:
        for dtype in kernel.tolerance:
            function = device.function(kernel, dtype)
            for case in kernel.cases(DTYPES[dtype]):
                yield check_case(device, kernel, dtype, case, function)


def check_case(device: Device, kernel: Kernel, dtype: str, case: Case, function: Any) -> Checked:
    """Run once on fresh memory, and compare all of it."""
    found = run_case(device, kernel, case, function)
    expected = expect(kernel, case)
    worst, allowed, why = 0.0, 0.0, ""
    for name, given in case.arguments.items():
        if not isinstance(given, np.ndarray):
            continue
        if name not in case.writes:
            if found[name].tobytes() != given.tobytes():
                why = why or f"{name}, an input, was changed"
            continue
        error, limit, fault = _compare(name, found[name], expected[name], case, kernel, dtype)
        why = why or fault
        if error >= worst:
            worst, allowed = error, limit
    status = "failed" if why else "passed"
    return Checked(kernel.name, kernel.variant, dtype, case.label, worst, allowed, status, why)


def run_case(device: Device, kernel: Kernel, case: Case, function: Any) -> dict[str, Array]:
    """Every array as the kernel left it."""
    driver = device.driver
    arguments = {name: on_device(driver, value) for name, value in case.arguments.items()}
    device.launch(function, kernel.launch(case, device.capability), list(arguments.values()))
    found = {}
    for name, given in case.arguments.items():
        if isinstance(given, np.ndarray):
            found[name] = np.empty_like(given)
            if given.nbytes:
                driver.memcpy_dtoh(found[name], arguments[name])
    return found


def expect(kernel: Kernel, case: Case) -> dict[str, Array]:
    """What the twin leaves; floating-point results in float64."""
    copies = {
        name: _wide(value) if name in case.writes and value is not None else value
        for name, value in case.arguments.items()
    }
    kernel.twin(**copies)
    return {name: value for name, value in copies.items() if isinstance(value, np.ndarray)}


def _wide(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype.kind == "f" else array.copy()


def _compare(
    name: str, found: Array, expected: Array, case: Case, kernel: Kernel, dtype: str
) -> tuple[float, float, str]:
    """Worst error, what was allowed there, and the fault in words."""
    size = case.written.get(name, found.size)
    beyond = found.reshape(-1)[size:].view(np.uint8)
    if not (beyond == SENTINEL).all():
        return 0.0, 0.0, f"{name} was written beyond its first {size} values"
    ours, truth = found.reshape(-1)[:size], expected.reshape(-1)[:size]
    if name in case.any_order:
        offsets = case.arguments["expert_offsets"]
        ours, truth = _in_order(ours, offsets), _in_order(truth, offsets)
    if ours.dtype.kind != "f":
        return _whole(name, ours, truth)
    return _near(name, ours, truth, kernel.tolerance[dtype])


def _in_order(values: Array, offsets: Array) -> Array:
    """Each expert's rows sorted: for what may come in any order there."""
    parts = np.split(values, offsets[1:-1])
    return np.concatenate([np.sort(part) for part in parts])


def _whole(name: str, ours: Array, truth: Array) -> tuple[float, float, str]:
    wrong = np.flatnonzero(ours != truth)
    if not len(wrong):
        return 0.0, 0.0, ""
    first = int(wrong[0])
    difference = np.abs(ours.astype(np.float64) - truth)
    words = f"{name}[{first}] is {ours[first]}, not {truth[first]}; {len(wrong)} differ"
    return float(difference.max()), 0.0, words


def _near(name: str, ours: Array, truth: Array, tolerance: Tolerance) -> tuple[float, float, str]:
    with np.errstate(over="ignore"):  # what the stored dtype cannot hold is infinite in it
        stored = truth.astype(ours.dtype).astype(np.float64)
    truth = np.where(np.isfinite(stored), truth, stored)
    same = (ours == truth) | (np.isnan(ours) & np.isnan(truth))
    with np.errstate(invalid="ignore"):
        error = np.where(same, 0.0, np.abs(ours.astype(np.float64) - truth))
    error = np.where(np.isnan(error), np.inf, error)
    limit = tolerance.atol + tolerance.rtol * np.where(np.isfinite(truth), np.abs(truth), 0.0)
    if not error.size:
        return 0.0, tolerance.atol, ""
    worst = int(np.argmax(error - limit))
    wrong = int((error > limit).sum())
    if not wrong:
        largest = int(np.argmax(error))
        return float(error[largest]), float(limit[largest]), ""
    words = f"{name}[{worst}] is {ours[worst]:.7g}, not {truth[worst]:.7g}; {wrong} differ"
    return float(error[worst]), float(limit[worst]), words
