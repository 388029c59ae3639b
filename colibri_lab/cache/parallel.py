"""Experts over several devices: how uneven the work is, and what copies of busy experts help."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, TraceError
from ..reference.trace import RoutingTrace

Load = NDArray[Any]
MOST_COPIES = 1 << 14  # beyond one an expert: one at a time is placed


@dataclass(frozen=True)
class Placement:
    """Where copies of experts are.

    device_of, expert_of : [copies] int, one layer; an expert's tokens are shared by its copies.
    """

    device_of: NDArray[np.int64]
    expert_of: NDArray[np.int64]
    num_devices: int

    def device_load(self, load: Load) -> NDArray[np.float64]:
        """[devices] tokens, from load [E] tokens."""
        copies = np.bincount(self.expert_of, minlength=len(load))
        share = np.asarray(load, np.float64)[self.expert_of] / copies[self.expert_of]
        return np.bincount(self.device_of, share, minlength=self.num_devices).astype(np.float64)

    def imbalance(self, load: Load) -> float:
        """The busiest device's tokens over the mean; 1 is even; nan without tokens."""
        devices = self.device_load(load)
        return float(devices.max() / devices.mean()) if devices.sum() else float("nan")


def contiguous(num_experts: int, num_devices: int) -> Placement:
    """Experts in order, as many on each device."""
    _check(num_experts, num_devices, num_experts)
    experts = np.arange(num_experts)
    return Placement(experts * num_devices // num_experts, experts, num_devices)


def balanced(load: Load, num_devices: int, num_copies: int) -> Placement:
    """Copies for the busiest experts, then the heaviest copy to the lightest device with room.

    load : [E] tokens that the placement is fitted on.   num_copies : in all, E or more, and a
    multiple of num_devices: each device holds as many. Greedy, as in EPLB.
    Source: DeepSeek-V3, arXiv:2412.19437, section 3.4; EPLB's replicate-and-pack.
    """
    load = np.asarray(load, np.float64)
    _check(len(load), num_devices, num_copies)
    copies = _replicate(load, num_copies)
    experts = np.repeat(np.arange(len(load)), copies)
    weights = (load / copies)[experts]
    room = np.full(num_devices, num_copies // num_devices)
    devices, device_of = np.zeros(num_devices), np.empty(num_copies, np.int64)
    for copy in np.argsort(-weights, kind="stable"):
        open_devices = np.flatnonzero(room)
        chosen = open_devices[np.argmin(devices[open_devices])]
        device_of[copy] = chosen
        devices[chosen] += weights[copy]
        room[chosen] -= 1
    return Placement(device_of, experts, num_devices)


def _replicate(load: NDArray[np.float64], num_copies: int) -> NDArray[np.int64]:
    """[E] copies: one each, then one more for whichever expert has the most tokens a copy."""
    copies = np.ones(len(load), np.int64)
    for _ in range(num_copies - len(load)):
        copies[np.argmax(load / copies)] += 1
    return copies


@dataclass(frozen=True)
class Placed:
    """How uneven devices are loaded, and what they send, for one number of devices.

    num_copies : a layer.   contiguous, balanced : imbalance, mean of layers, of experts in order
    and of the greedy placement fitted on the whole trace;   held_out, worst_layer : of the one
    fitted on the first half of the tokens, on the second half; mean and most of layers.
    sent_contiguous, sent_balanced : share of assignments that leave their request's device, where
    requests are dealt out to devices in turn.
    """

    num_devices: int
    num_copies: int
    contiguous: float
    balanced: float
    held_out: float
    worst_layer: float
    sent_contiguous: float
    sent_balanced: float


def place(trace: RoutingTrace, num_devices: int, extra_copies: int = 0) -> Placed:
    """Place each layer's experts over devices.

    extra_copies : beyond one an expert, rounded up to as many on each device.
    Raises InputError where devices do not divide the experts or extra copies are out of range,
    TraceError where the trace is empty.
    """
    if num_devices < 1 or not 0 <= extra_copies <= MOST_COPIES:
        raise InputError(
            "experts cannot be placed so",
            expected=f"1 device or more, 0 to {MOST_COPIES} extra copies",
            found=f"{num_devices} devices, {extra_copies} copies",
        )
    if trace.num_experts % num_devices:
        raise InputError(
            "experts cannot be placed in order, as many on each device",
            expected=f"a number of devices that divides the {trace.num_experts} experts of a layer",
            found=f"{num_devices} devices",
        )
    if not (trace.expert >= 0).any():
        raise TraceError("the trace is empty", expected="one assignment or more", found=0)
    copies = -(-(trace.num_experts + extra_copies) // num_devices) * num_devices
    rows = np.flatnonzero(trace.expert >= 0)
    first, second = (_load(trace, half) for half in np.array_split(rows, 2))
    whole = first + second
    plain = contiguous(trace.num_experts, num_devices)
    fitted = [balanced(load, num_devices, copies) for load in whole]
    ahead = [balanced(load, num_devices, copies) for load in first]
    held_out = [each.imbalance(load) for each, load in zip(ahead, second, strict=True)]
    return Placed(
        num_devices=num_devices,
        num_copies=copies,
        contiguous=_mean([plain.imbalance(load) for load in whole]),
        balanced=_mean([each.imbalance(load) for each, load in zip(fitted, whole, strict=True)]),
        held_out=_mean(held_out),
        worst_layer=float(np.nanmax(held_out)) if not np.isnan(held_out).all() else float("nan"),
        sent_contiguous=_sent(trace, [plain] * trace.num_layers),
        sent_balanced=_sent(trace, fitted),
    )


def _load(trace: RoutingTrace, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """[L, E] tokens of these rows."""
    flat = trace.layer[rows].astype(np.int64) * trace.num_experts + trace.expert[rows]
    size = trace.num_layers * trace.num_experts
    return np.bincount(flat, minlength=size).reshape(trace.num_layers, trace.num_experts)


def _mean(values: list[float]) -> float:
    """Of the layers that have tokens."""
    known = [value for value in values if not np.isnan(value)]
    return float(np.mean(known)) if known else float("nan")


def _sent(trace: RoutingTrace, placements: list[Placement]) -> float:
    """Share of all assignments."""
    sent = total = 0.0
    for layer, placement in enumerate(placements):
        rows = np.flatnonzero((trace.layer == layer) & (trace.expert >= 0))
        if len(rows):
            device = trace.request[rows] % placement.num_devices
            sent += traffic(trace.expert[rows], placement, device) * len(rows)
            total += len(rows)
    return sent / total


def traffic(trace_rows: Load, placement: Placement, token_device: Load) -> float:
    """Share of assignments whose expert is on another device than the token.

    trace_rows : [N] experts;  token_device : [N] devices. A copy on the token's device is taken.
    """
    if not len(trace_rows):
        return float("nan")
    shape = (int(placement.expert_of.max()) + 1, placement.num_devices)
    here = np.zeros(shape, bool)
    here[placement.expert_of, placement.device_of] = True
    return float(1.0 - here[trace_rows, token_device].mean())


def _check(num_experts: int, num_devices: int, num_copies: int) -> None:
    if num_devices < 1 or num_copies < num_experts or num_copies % num_devices:
        raise InputError(
            "experts cannot be placed so",
            expected="copies: at least one an expert, and as many on each device",
            found=f"{num_experts} experts, {num_copies} copies, {num_devices} devices",
        )
