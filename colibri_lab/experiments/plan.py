"""A dry run: how many cells, about how long, about how much memory."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..config import ModelConfig
from ..reference import ExpertWeights, swiglu
from .backends import pinned_blas
from .grid import Cell
from .inputs import Reading, check_fit, load_inputs, plan_reading, random_reading
from .memory import memory_terms
from .run_store import reusable

if TYPE_CHECKING:
    from .session import Request

# Rough costs that no probe is worth: of routing a layer's call and of opening a cell.
ROUTING_S = 100e-6
CELL_S = 0.1
PROBE_WEIGHTS = 1 << 20
PERPLEXITY_TOKENS = 4096
# Above it the reference holds its weights as float32; its sums are in float64 all the same.
LARGE_BYTES = 4 << 30


@dataclass(frozen=True)
class Plan:
    """What a sweep would do.

    cells : in the order in which they would run.   reused : of them, in the run folder already.
    estimated_s : from a probe of this machine; within a factor of two or three.
    memory : bytes of the arrays that are held when most are, by what they are.
    disk_bytes : of the run folder.
    """

    cells: tuple[Cell, ...]
    reused: int
    design: str
    estimated_s: float
    memory: Mapping[str, int]
    disk_bytes: int

    @property
    def num_cells(self) -> int:
        return len(self.cells)

    @property
    def memory_bytes(self) -> int:
        """Without the interpreter, its libraries and the mapped checkpoint."""
        return sum(self.memory.values())

    def __str__(self) -> str:
        return (
            f"{self.num_cells} cells ({self.design}), {self.reused} of them measured already; "
            f"about {self.estimated_s:.0f} s, {self.memory_bytes / 2**20:.0f} MiB of arrays, "
            f"{self.disk_bytes / 2**20:.0f} MiB on disk"
        )


@dataclass(frozen=True)
class _ExpertCost:
    """Seconds of an expert: once a call, and once a token."""

    call_s: float
    token_s: float

    def layer_s(self, config: ModelConfig, num_tokens: int, top_k: int) -> float:
        """One MoE layer, experts chosen evenly and independently."""
        active = _active(config, num_tokens, top_k)
        return ROUTING_S + active * self.call_s + num_tokens * top_k * self.token_s


def make_plan(request: Request) -> Plan:
    """Work out what `request` would do, without doing any of it."""
    cells = request.order()
    finished = reusable(request.folder, request.identity, request.settings.tolerance)
    todo = [cell for cell in cells if request.cell_id(cell) not in finished]
    reading, inputs_bytes = _inputs(request)
    return Plan(
        cells=tuple(cells),
        reused=len(cells) - len(todo),
        design=request.grid.design,
        estimated_s=_seconds(request, todo),
        memory=memory_terms(request, todo, inputs_bytes, reading),
        disk_bytes=inputs_bytes + 16 * len(todo) * request.settings.repeats,
    )


def _inputs(request: Request) -> tuple[Reading | None, int]:
    """What is to be captured, None where a run has it already; and the bytes that it takes.

    Refused, as the run would, where it cannot be what the grid needs.
    """
    stored = load_inputs(request.folder)
    if stored is not None:
        check_fit(stored, request.needs, request.folder)
        return None, stored.hidden_states.nbytes
    if request.inputs == "text" and request.corpus is not None:
        reading = plan_reading(request.config, request.corpus, request.needs)
    else:
        reading = random_reading(request.needs)
    return reading, reading.num_bytes(request.config)


def _seconds(request: Request, cells: list[Cell]) -> float:
    if not cells:
        return 0.0
    config, settings = request.config, request.settings
    with pinned_blas(settings.blas_threads):
        cost = _probe(config)
    calls = settings.warmup + settings.repeats
    total = 0.0
    for cell in cells:
        layer_s = cost.layer_s(config, cell.num_tokens, cell.top_k)
        checks = 3 * (settings.warmup + 1)
        total += CELL_S + config.num_moe_layers * (layer_s * (calls + checks) + ROUTING_S * calls)
    for top_k, _ in {(cell.top_k, cell.capacity) for cell in cells}:
        total += 2 * config.num_moe_layers * cost.layer_s(config, PERPLEXITY_TOKENS, top_k)
    return total


def _probe(config: ModelConfig) -> _ExpertCost:
    """Time a small expert on this machine and scale it to the model's size."""
    hidden, inner = config.hidden_size, config.moe.intermediate_size
    rows = max(1, min(inner, PROBE_WEIGHTS // hidden))
    wide = np.ones((rows, hidden))
    expert = ExpertWeights(gate=wide, up=wide, down=wide.T.copy())
    one, many = (_best_s(np.ones((tokens, hidden)), expert) for tokens in (1, 33))
    token_s = max(many - one, 0.0) / 32
    return _ExpertCost(one * inner / rows, token_s * inner / rows)


def _best_s(tokens: np.ndarray, expert: ExpertWeights) -> float:
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        swiglu(tokens, expert)
        best = min(best, time.perf_counter() - start)
    return best


def _active(config: ModelConfig, num_tokens: int, top_k: int) -> float:
    """Experts with a token or more, if every token chose evenly."""
    experts = config.moe.num_experts
    return float(experts * (1 - (1 - top_k / experts) ** num_tokens))


def weight_dtype(config: ModelConfig) -> np.dtype[Any]:
    """What the reference holds its weights in: float64 is faster, where there is room."""
    return np.dtype(np.float64 if 8 * _num_weights(config) <= LARGE_BYTES else np.float32)


def _num_weights(config: ModelConfig) -> int:
    experts = config.num_moe_layers * config.moe.num_experts * config.moe.expert_params
    return experts + 2 * config.vocab_size * config.hidden_size
