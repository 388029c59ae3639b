"""Experts over several devices: how uneven the work is, and what copies of busy experts help."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError

Load = NDArray[Any]


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


def traffic(trace_rows: NDArray[np.int64], placement: Placement, token_device: Load) -> float:
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
