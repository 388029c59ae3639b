"""A routing trace: which expert each token took, in the order it happened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import TraceError

PREFILL, DECODE = 0, 1
COLUMNS = {
    "phase": np.uint8,
    "request": np.int32,
    "step": np.int32,
    "layer": np.int32,
    "slot": np.int32,
    "expert": np.int32,
    "weight": np.float32,
}
LOOKAHEAD = "lookahead"  # a column that few traces have


@dataclass(frozen=True)
class RoutingTrace:
    """One row an assignment; the columns are arrays of one length N.

    phase : uint8, 0 prefill, 1 decode.   request : int32, which sequence.
    step : int32, the token's position in its sequence.   layer : int32, the MoE layer.
    slot : int32, 0 is the token's best expert.   expert : int32, -1 where dropped.
    weight : float32, what the expert's output is multiplied by.
    lookahead : int32, the expert that the layer's own router put at this slot one layer early, when
    it was shown what the layer before saw; -1 where it was not asked. None: not recorded.
    expert_bytes : [L] bytes an expert of each layer has where it is stored.
    """

    phase: NDArray[np.uint8]
    request: NDArray[np.int32]
    step: NDArray[np.int32]
    layer: NDArray[np.int32]
    slot: NDArray[np.int32]
    expert: NDArray[np.int32]
    weight: NDArray[np.float32]
    num_layers: int
    num_experts: int
    top_k: int
    expert_bytes: tuple[int, ...]
    model: str = ""
    source: str = ""
    licence: str = ""
    lookahead: NDArray[np.int32] | None = None

    def __post_init__(self) -> None:
        lengths = {name: len(column) for name, column in self.columns().items()}
        if len(set(lengths.values())) > 1:
            raise TraceError("trace columns differ in length", expected="one length", found=lengths)
        if len(self.expert_bytes) != self.num_layers:
            raise TraceError(
                "expert_bytes must have one value a layer",
                expected=self.num_layers,
                found=len(self.expert_bytes),
            )

    def __len__(self) -> int:
        return len(self.expert)

    def columns(self) -> dict[str, NDArray[Any]]:
        """The columns by name; `lookahead` only where it was recorded."""
        found: dict[str, NDArray[Any]] = {name: getattr(self, name) for name in COLUMNS}
        return found if self.lookahead is None else {**found, LOOKAHEAD: self.lookahead}

    def rows(self, index: slice | NDArray[Any]) -> RoutingTrace:
        """A copy of some rows, in this order."""
        chosen: dict[str, Any] = {name: col[index].copy() for name, col in self.columns().items()}
        return replace(self, **chosen)

    def expert_load(self) -> NDArray[np.int64]:
        """[L, E] int64, tokens that each expert took; dropped assignments are not counted."""
        kept = self.expert >= 0
        flat = self.layer[kept].astype(np.int64) * self.num_experts + self.expert[kept]
        size = self.num_layers * self.num_experts
        return np.bincount(flat, minlength=size).reshape(self.num_layers, self.num_experts)

    def best(self, top_k: int) -> RoutingTrace:
        """Each token's `top_k` best experts alone; their weights stay as they are.

        TraceError where the trace does not have as many.
        """
        if not 1 <= top_k <= self.top_k:
            raise TraceError(
                "top_k is out of range", expected=f"1 to the trace's {self.top_k}", found=top_k
            )
        return replace(self.rows(self.slot < top_k), top_k=top_k)


@dataclass
class TraceRecorder:
    """Collects the routing of layer calls and joins it into a trace."""

    num_layers: int
    num_experts: int
    expert_bytes: Sequence[int]
    model: str = ""
    source: str = ""
    asks_ahead: bool = False  # whether the next layer's router is to be shown this layer's input
    _parts: list[dict[str, NDArray[Any]]] = field(default_factory=list)
    _top_k: int = 0

    def add(
        self,
        layer: int,
        topk_ids: NDArray[np.int32],
        topk_weights: NDArray[Any],
        *,
        batch_size: int,
        start: int,
        phase: int,
        first_request: int = 0,
        lookahead: NDArray[np.int32] | None = None,
    ) -> None:
        """Record one layer call over `batch_size` sequences of equal length.

        topk_ids, topk_weights : [T, K], sequence after sequence.   start : the first position.
        lookahead : [T, K], as the trace has it.
        """
        num_tokens, top_k = topk_ids.shape
        self._top_k = max(self._top_k, top_k)
        shape = (batch_size, num_tokens // max(batch_size, 1), top_k)
        request, position, slot = np.indices(shape, dtype=np.int32).reshape(3, -1)
        self._parts.append(
            {
                "phase": np.full(request.size, phase),
                "request": request + first_request,
                "step": position + start,
                "layer": np.full(request.size, layer),
                "slot": slot,
                "expert": topk_ids.ravel(),
                "weight": topk_weights.ravel(),
                LOOKAHEAD: np.full(topk_ids.size, -1) if lookahead is None else lookahead.ravel(),
            }
        )

    def trace(self) -> RoutingTrace:
        """Everything recorded so far."""
        wanted = {**COLUMNS, LOOKAHEAD: np.int32} if self.asks_ahead else COLUMNS
        columns: dict[str, Any] = {
            name: np.concatenate([np.asarray(part[name], dtype) for part in self._parts])
            if self._parts
            else np.zeros(0, dtype)
            for name, dtype in wanted.items()
        }
        return RoutingTrace(
            **columns,
            num_layers=self.num_layers,
            num_experts=self.num_experts,
            top_k=self._top_k,
            expert_bytes=tuple(self.expert_bytes),
            model=self.model,
            source=self.source,
        )
