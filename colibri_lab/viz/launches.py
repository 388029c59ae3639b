"""One MoE layer as launches of the catalogue's kernels, each stage in several ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernels import find, twins
from ..kernels.case import Case, unwritten
from ..kernels.check import expect
from ..reference import MoELayerWeights

Array = NDArray[Any]
Launches = Sequence[tuple[str, Case]]  # entry and arguments, in the order of the work
LABEL = "the layer's"


def layer_launches(
    hidden_states: Array, weights: MoELayerWeights, top_k: int, dtype: Any = np.float32
) -> dict[str, Launches]:
    """The launches that compute one MoE layer, stage by stage, each stage in several ways.

    hidden_states : [T, H], what the layer is given.
    Returns stage -> launches; each launch has the twin's results of those before it as its input.
    """
    x = np.asarray(hidden_states, dtype)
    router = np.ascontiguousarray(weights.router, np.float32)
    route = _route(x.astype(np.float32), router, top_k)
    ids, topk_weights = (route.arguments[name] for name in ("topk_ids", "topk_weights"))
    logits = (x.astype(np.float64) @ router).astype(np.float32)
    dispatch, plan = _dispatch(ids, len(weights.experts))
    experts = _Experts(x, plan, _stacked(weights, dtype))
    return {
        "route": [("route_fused", _unwritten_again(route)),
                  *((f"route_topk_{name}", _route_topk(logits, top_k))
                    for name in ("naive", "warp", "block"))],
        "dispatch": dispatch,
        "separate": experts.separate(),
        "fused_swiglu": experts.fused_swiglu("tiled"),
        "fused_swiglu, naive": experts.fused_swiglu("naive"),
        "fused_expert": experts.fused_expert(),
        **_aggregate(experts.result(), plan, topk_weights),
    }  # fmt: skip


def _route(x: Array, router: Array, top_k: int) -> Case:
    (tokens, hidden), experts = x.shape, router.shape[1]
    arguments = {
        "hidden_states": x, "router": router,
        "topk_ids": unwritten((tokens, top_k), np.int32),
        "topk_weights": unwritten((tokens, top_k), np.float32), "router_logits": None,
        "num_tokens": tokens, "hidden_size": hidden, "num_experts": experts, "top_k": top_k,
        "renormalize": 1,
    }  # fmt: skip
    twins.route_fused(**arguments)
    return Case(LABEL, arguments, writes=("topk_ids", "topk_weights", "router_logits"))


def _unwritten_again(case: Case) -> Case:
    """The same launch, before it has written anything."""
    blank = {n: unwritten(v.shape, v.dtype) if n in case.writes and v is not None else v
             for n, v in case.arguments.items()}  # fmt: skip
    return replace(case, arguments=blank)


def _route_topk(logits: Array, top_k: int) -> Case:
    tokens, experts = logits.shape
    arguments = {
        "router_logits": logits, "topk_ids": unwritten((tokens, top_k), np.int32),
        "topk_weights": unwritten((tokens, top_k), np.float32), "num_tokens": tokens,
        "num_experts": experts, "top_k": top_k, "renormalize": 1,
    }  # fmt: skip
    return Case(LABEL, arguments, writes=("topk_ids", "topk_weights"))


def _dispatch(ids: Array, num_experts: int) -> tuple[Launches, dict[str, Array]]:
    """The launches of dispatch, and what they leave."""
    size, top_k = ids.size, ids.shape[1]
    counts, offsets = np.zeros(num_experts, np.int32), np.zeros(num_experts + 1, np.int32)
    tokens, slots = np.zeros(size, np.int32), np.zeros(size, np.int32)
    twins.dispatch_count(ids, counts, size, num_experts)
    twins.dispatch_scan(counts, offsets, num_experts)
    twins.dispatch_scatter_stable(ids, offsets, tokens, slots, size, top_k)
    zeros = np.zeros(num_experts, np.int32)
    places = {"sorted_token_ids": unwritten(size, np.int32),
              "sorted_slots": unwritten(size, np.int32)}  # fmt: skip
    sizes = {"num_assignments": size, "top_k": top_k}
    names = tuple(places)
    launches = [
        ("dispatch_count", Case(LABEL, {"topk_ids": ids, "expert_counts": zeros,
                                        "num_assignments": size, "num_experts": num_experts},
                                writes=("expert_counts",))),
        ("dispatch_scan", Case(LABEL, {"expert_counts": counts,
                                       "expert_offsets": unwritten(num_experts + 1, np.int32),
                                       "num_experts": num_experts}, writes=("expert_offsets",))),
        ("dispatch_scatter_stable",
         Case(LABEL, {"topk_ids": ids, "expert_offsets": offsets, **places, **sizes},
              writes=names)),
        ("dispatch_scatter_atomic",
         Case(LABEL, {"topk_ids": ids, "expert_offsets": offsets, "expert_counts": zeros,
                      **places, **sizes}, writes=("expert_counts", *names),
              any_order=names)),
    ]  # fmt: skip
    return launches, {"offsets": offsets, "tokens": tokens, "slots": slots}


def _stacked(weights: MoELayerWeights, dtype: Any) -> dict[str, Array]:
    experts = list(weights.experts)
    return {part: np.stack([np.asarray(getattr(e, part), dtype) for e in experts])
            for part in ("gate", "up", "down")}  # fmt: skip


@dataclass(frozen=True)
class _Experts:
    """The expert stage's operands, and its launches in three ways."""

    x: Array
    plan: Mapping[str, Array]
    weights: Mapping[str, Array]

    def _gemm(self, x: Array, row_ids: Array | None, part: str, variant: str = "tiled") -> Any:
        matrix = self.weights[part]
        arguments = {
            "x": x, "row_ids": row_ids, "expert_offsets": self.plan["offsets"],
            "expert_slots": None, "weights": matrix,
            "y": unwritten((len(self.plan["tokens"]), matrix.shape[1]), x.dtype),
            "num_experts": len(matrix), "inner": matrix.shape[2], "outer": matrix.shape[1],
        }  # fmt: skip
        return f"expert_gemm_{variant}", Case(part, arguments, writes=("y",))

    def separate(self) -> Launches:
        """Gate, up, SiLU times up, down: each by a launch."""
        gate = self._gemm(self.x, self.plan["tokens"], "gate")
        up = self._gemm(self.x, self.plan["tokens"], "up")
        values = [_twin_of(*each)["y"].astype(self.x.dtype) for each in (gate, up)]
        h = unwritten(values[0].shape, self.x.dtype)
        both = {"gate": values[0], "up": values[1], "h": h, "num_values": h.size}
        silu = ("silu_mul", Case("SiLU", both, writes=("h",)))
        return [gate, up, silu, self._gemm(self._h(), None, "down")]

    def fused_swiglu(self, variant: str) -> Launches:
        """Gate, up and SiLU in one launch, down in another."""
        h = unwritten((len(self.plan["tokens"]), self._inner), self.x.dtype)
        fused = Case("gate, up, SiLU", {**self._given(), "h": h, **self._sizes()}, writes=("h",))
        return [(f"fused_swiglu_{variant}", fused), self._gemm(self._h(), None, "down", variant)]

    def fused_expert(self) -> Launches:
        """All in one launch."""
        y = np.zeros((len(self.plan["tokens"]), self.x.shape[1]), np.float32)
        given = {**self._given(), "down_weights": self.weights["down"], "y": y, **self._sizes()}
        return [("fused_expert", Case("all", given, writes=("y",)))]

    def result(self) -> Array:
        """[N, H] what the experts make of the sorted rows."""
        return _twin_of(*self._gemm(self._h(), None, "down"))["y"].astype(self.x.dtype)

    def _h(self) -> Array:
        rows = np.zeros((len(self.plan["tokens"]), self._inner), np.float64)
        twins.fused_swiglu(**{**self._given(), "h": rows, **self._sizes()})
        return rows.astype(self.x.dtype)

    @property
    def _inner(self) -> int:
        return int(self.weights["gate"].shape[1])

    def _given(self) -> dict[str, Any]:
        return {"x": self.x, "row_ids": self.plan["tokens"],
                "expert_offsets": self.plan["offsets"], "expert_slots": None,
                "gate_weights": self.weights["gate"], "up_weights": self.weights["up"]}  # fmt: skip

    def _sizes(self) -> dict[str, int]:
        return {"num_experts": len(self.weights["gate"]), "hidden_size": self.x.shape[1],
                "intermediate_size": self._inner}  # fmt: skip


def _twin_of(entry: str, case: Case) -> dict[str, Array]:
    return expect(find([entry])[0], case)


def _aggregate(y: Array, plan: Mapping[str, Array], weights: Array) -> dict[str, Launches]:
    (tokens, top_k), hidden = weights.shape, y.shape[1]
    places = {"sorted_token_ids": plan["tokens"], "sorted_slots": plan["slots"]}
    rows = plan["offsets"][-1:].copy()
    row_of = np.full((tokens, top_k), -1, np.int32)
    invert = {**places, "num_rows": rows, "row_of": row_of.copy(), "top_k": top_k}
    twins.aggregate_invert(plan["tokens"], plan["slots"], rows, row_of, top_k)
    sizes = {"hidden_size": hidden, "top_k": top_k}
    atomic = {"y": y, **places, "topk_weights": weights, "num_rows": rows,
              "output": np.zeros((tokens, hidden), np.float32), **sizes}  # fmt: skip
    gather = {"y": y, "row_of": row_of, "topk_weights": weights,
              "output": unwritten((tokens, hidden), np.float32), **sizes}  # fmt: skip
    return {
        "aggregate, atomic": [("aggregate_atomic", Case(LABEL, atomic, writes=("output",)))],
        "aggregate, gather": [("aggregate_invert", Case(LABEL, invert, writes=("row_of",))),
                              ("aggregate_gather", Case(LABEL, gather, writes=("output",)))],
    }  # fmt: skip
