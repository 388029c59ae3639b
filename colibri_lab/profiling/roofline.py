"""The least time that a machine's limits allow, from the experts that are really active."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ..config import HardwareSpec, MoEConfig


@dataclass(frozen=True)
class Floor:
    """A lower bound on a call's time.

    bytes_moved : weights of active experts and routers, and the hidden states in and out.
    flops : of routers and experts, a multiply-add counted as two.
    floor_s : the larger of bytes over bandwidth and flops over arithmetic.   bound : which it is.
    """

    bytes_moved: int
    flops: int
    floor_s: float
    bound: Literal["memory", "compute"]


def moe_floor(
    moe: MoEConfig,
    num_tokens: int,
    active_experts: Sequence[float],
    assignments: Sequence[float],
    hardware: HardwareSpec,
    *,
    weight_bytes: int = 4,
) -> Floor:
    """The floor of one call over several MoE layers.

    num_tokens : T of each layer.   active_experts : [L] experts with a token or more.
    assignments : [L] token-expert pairs computed: T * K less the dropped.
    weight_bytes : bytes of a weight where the computation reads it.
    Source: Williams et al., Roofline, CACM 52(4), 2009.
    """
    layers = len(active_experts)
    router = moe.hidden_size * moe.num_experts
    weights = sum(active_experts) * moe.expert_params + layers * router
    states = 2 * layers * num_tokens * moe.hidden_size
    bytes_moved = int(weights * weight_bytes + states * 4)
    products = sum(assignments) * moe.expert_params + layers * num_tokens * router
    memory_s = bytes_moved / (hardware.read_gbps * 1e9)
    compute_s = 2 * products / (hardware.gflops * 1e9)
    bound: Literal["memory", "compute"] = "memory" if memory_s >= compute_s else "compute"
    return Floor(bytes_moved, int(2 * products), max(memory_s, compute_s), bound)
