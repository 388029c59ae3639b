"""How each kernel is launched: its grid from the sizes, its block from the architecture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

TILE = 16
# Threads a block by compute capability. Where a GPU was tuned (docs/gpu-results) it has a row;
# the others take the default: small blocks that fit every GPU since 7.0, four warps each.
THREADS: dict[str, dict[str, int]] = {
    "default": {
        "route_topk_naive": 64, "route_topk_warp": 128, "route_topk_block": 64, "route_fused": 128,
        "dispatch_count": 256, "dispatch_scan": 1024, "dispatch_scatter_stable": 128,
        "dispatch_scatter_atomic": 128, "expert_gemm_naive": 128, "silu_mul": 256,
        "fused_swiglu_naive": 128, "aggregate_atomic": 128, "aggregate_invert": 128,
        "aggregate_gather": 128, "seq_offsets": 1024, "pack_input": 128,
    },
}  # fmt: skip


@dataclass(frozen=True)
class Launch:
    """grid, block : x, y, z.   shared : bytes of dynamic shared memory."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int = 0

    @property
    def is_empty(self) -> bool:
        """CUDA refuses a grid of nothing, and there is nothing to do."""
        return 0 in self.grid


Sizes = Mapping[str, int]
Geometry = Callable[[Sizes, int], Launch]


def threads_of(entry: str, capability: str = "default") -> int:
    """Threads a block for a kernel; an architecture that is not in the table takes the default."""
    table = {**THREADS["default"], **THREADS.get(capability, {})}
    return table.get(entry, TILE * TILE)


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


def _line(count: int, threads: int, shared: int = 0) -> Launch:
    return Launch((_ceil(count, threads), 1, 1), (threads, 1, 1), shared)


def route_topk_naive(s: Sizes, threads: int) -> Launch:
    return _line(s["num_tokens"], threads)


def route_topk_warp(s: Sizes, threads: int) -> Launch:
    return Launch((_ceil(s["num_tokens"], threads // 32), 1, 1), (threads, 1, 1))


def route_topk_block(s: Sizes, threads: int) -> Launch:
    return Launch((s["num_tokens"], 1, 1), (threads, 1, 1), 8 * s["top_k"] * (threads // 32))


def route_fused(s: Sizes, threads: int) -> Launch:
    shared = 8 * s["num_experts"] + 4 * s["hidden_size"]
    return Launch((s["num_tokens"], 1, 1), (threads, 1, 1), shared)


def dispatch_count(s: Sizes, threads: int) -> Launch:
    return _line(s["num_assignments"], threads, 4 * s["num_experts"])


def one_block(s: Sizes, threads: int) -> Launch:
    del s
    return Launch((1, 1, 1), (threads, 1, 1), 4 * threads)


def dispatch_scatter_stable(s: Sizes, threads: int) -> Launch:
    return Launch((s["num_experts"], 1, 1), (threads, 1, 1), 4 * (threads // 32 + 1))


def dispatch_scatter_atomic(s: Sizes, threads: int) -> Launch:
    return _line(s["num_assignments"], threads)


def outputs_by_row(outer: str) -> Geometry:
    """A thread an output, a row of the grid a row of the result."""

    def geometry(s: Sizes, threads: int) -> Launch:
        return Launch((_ceil(s[outer], threads), s["num_rows"], 1), (threads, 1, 1))

    return geometry


def tiles(outer: str, side: int = TILE, block: tuple[int, int, int] = (TILE, TILE, 1)) -> Geometry:
    """A block a tile of outputs. Experts may each leave one tile unfilled, none without a row."""

    def geometry(s: Sizes, threads: int) -> Launch:
        del threads
        rows = s["num_rows"]
        most = min(rows, _ceil(rows, side) + s["num_experts"]) if rows else 0
        return Launch((_ceil(s[outer], side), most, 1), block)

    return geometry


def silu_mul(s: Sizes, threads: int) -> Launch:
    return _line(s["num_values"], threads)


def columns_by_row(s: Sizes, threads: int) -> Launch:
    return Launch((_ceil(s["hidden_size"], threads), s["num_rows"], 1), (threads, 1, 1))


def rows(s: Sizes, threads: int) -> Launch:
    return _line(s["num_rows"], threads)


def pack_input(s: Sizes, threads: int) -> Launch:
    return Launch((s["max_seq_len"], s["num_rows"], 1), (threads, 1, 1))
