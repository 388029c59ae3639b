"""Shapes at the edges, and the values that lie there: of the experts and of adding up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import twins
from .case import Case, unwritten
from .cases import assignments, planned, seeded

Array = NDArray[Any]


def _experts(dtype: Any, multiple: int = 1) -> Iterator[tuple[str, dict[str, Any]]]:
    """Label, and the operands of the expert kernels at awkward sizes."""
    for tokens, hidden, inner, experts, top_k in (
        (0, 16, 16, 8, 2), (1, 33, 17, 8, 2), (31, 40, 24, 60, 4), (33, 64, 48, 1, 1),
        (33, 17, 33, 8, 8), (40, 32, 16, 128, 2),
    ):  # fmt: skip
        sizes = [-(-size // multiple) * multiple for size in (hidden, inner)]
        rng = seeded(tokens, hidden, inner)
        ids = np.argsort(rng.random((tokens, experts)), axis=1)[:, :top_k].astype(np.int32)
        label = f"T {tokens}, H {sizes[0]}, I {sizes[1]}, E {experts}, K {top_k}"
        yield label, operands(dtype, ids, experts, sizes[0], sizes[1], rng)
    ids = np.argsort(seeded(5).random((31, 8)), axis=1)[:, :2].astype(np.int32)
    moved = operands(dtype, ids, 8, 32, 16, seeded(6))
    moved["slots"] = np.array([3, 1, 7, 0, 2, 4, 6, 5], np.int32)
    yield "in other slots", moved
    lone = np.full((33, 1), 5, np.int32)
    yield "all in one expert", operands(dtype, lone, 8, 32, 16, seeded(1))
    dropped = np.where(seeded(2).random((31, 2)) < 0.4, -1, 3).astype(np.int32)
    dropped[:, 1] = np.where(dropped[:, 1] < 0, -1, 6)
    yield "some dropped", operands(dtype, dropped, 8, 32, 16, seeded(3))


def operands(
    dtype: Any, ids: Array, experts: int, hidden: int, inner: int, rng: np.random.Generator
) -> dict[str, Any]:
    plan = planned(ids, experts)

    def weights(outer: int, depth: int) -> Array:
        values = rng.standard_normal((experts, outer, depth)) / np.sqrt(depth)
        return values.astype(dtype)

    return {
        "x": rng.standard_normal((len(ids), hidden)).astype(dtype), "ids": ids, "plan": plan,
        "gate": weights(inner, hidden), "up": weights(inner, hidden),
        "down": weights(hidden, inner), "experts": experts, "hidden": hidden, "inner": inner,
        "rows": int(plan["offsets"][-1]), "slots": None,
    }  # fmt: skip


def expert_gemm(dtype: Any, multiple: int = 1) -> Iterator[Case]:
    """Gathered rows, and rows as they are; sums that overflow float16."""
    for label, given in _experts(dtype, multiple):
        yield _gemm(label, given, given["x"], given["plan"]["tokens"], given["gate"])
        if given["rows"]:
            rows = seeded(7).standard_normal((len(given["ids"].ravel()), given["inner"]))
            yield _gemm(f"{label}, not gathered", given, rows.astype(dtype), None, given["down"])
    huge = operands(dtype, np.zeros((3, 1), np.int32), 1, 32, 16, seeded(4))
    loud = (300 * np.abs(huge["x"])).astype(dtype)
    heavy = (300 * np.abs(huge["gate"]) + 100).astype(dtype)
    yield _gemm("sums beyond 65,504", huge, loud, huge["plan"]["tokens"], heavy)


def expert_gemm_wmma(dtype: Any) -> Iterator[Case]:
    """Depths that tensor cores take: multiples of 16."""
    return expert_gemm(dtype, 16)


def _gemm(label: str, given: dict[str, Any], x: Array, row_ids: Any, weights: Array) -> Case:
    outer, inner = weights.shape[1:]
    size = given["ids"].size
    return Case(
        label,
        {"x": x, "row_ids": row_ids, "expert_offsets": given["plan"]["offsets"],
         "expert_slots": given["slots"], "weights": weights, "y": unwritten((size, outer), x.dtype),
         "num_experts": given["experts"], "inner": inner, "outer": outer},
        writes=("y",),
        written={"y": given["rows"] * outer},
    )  # fmt: skip


def silu_mul(dtype: Any) -> Iterator[Case]:
    for size in (1, 31, 33, 5000):
        gate, up = seeded(size).standard_normal((2, size)).astype(dtype) * 3
        gate[0] = -90.0  # exp overflows
        yield Case(
            f"{size} values",
            {"gate": gate, "up": up, "h": unwritten(size, dtype), "num_values": size},
            writes=("h",),
        )


def fused_swiglu(dtype: Any) -> Iterator[Case]:
    for label, given in _experts(dtype):
        yield Case(
            label,
            {**_inputs(given), "gate_weights": given["gate"], "up_weights": given["up"],
             "h": unwritten((given["ids"].size, given["inner"]), dtype), **_sizes(given)},
            writes=("h",),
            written={"h": given["rows"] * given["inner"]},
        )  # fmt: skip


def fused_expert(dtype: Any) -> Iterator[Case]:
    for label, given in _experts(dtype):
        yield Case(
            label,
            {**_inputs(given), "gate_weights": given["gate"], "up_weights": given["up"],
             "down_weights": given["down"],
             "y": np.zeros((given["ids"].size, given["hidden"]), np.float32), **_sizes(given)},
            writes=("y",),
        )  # fmt: skip


def _inputs(given: dict[str, Any]) -> dict[str, Any]:
    plan = given["plan"]
    return {"x": given["x"], "row_ids": plan["tokens"], "expert_offsets": plan["offsets"],
            "expert_slots": given["slots"]}  # fmt: skip


def _sizes(given: dict[str, Any]) -> dict[str, Any]:
    return {"num_experts": given["experts"], "hidden_size": given["hidden"],
            "intermediate_size": given["inner"]}  # fmt: skip


def _aggregations(dtype: Any) -> Iterator[tuple[str, dict[str, Any], Array, Array]]:
    """Label, sorted rows, y, weights."""
    for label, ids, experts in assignments():
        for hidden in (40,) if len(ids) == 33 else (1, 33):
            rng = seeded(ids.size, hidden)
            y = rng.standard_normal((ids.size, hidden)).astype(dtype)
            weights = rng.random(ids.shape).astype(np.float32)
            yield f"{label}, H {hidden}", {**planned(ids, experts), "ids": ids}, y, weights


def _num_rows(plan: dict[str, Any]) -> Array:
    return plan["offsets"][-1:].copy()


def aggregate_atomic(dtype: Any) -> Iterator[Case]:
    for label, plan, y, weights in _aggregations(dtype):
        tokens, top_k = weights.shape
        yield Case(
            label,
            {"y": y, "sorted_token_ids": plan["tokens"], "sorted_slots": plan["slots"],
             "topk_weights": weights, "num_rows": _num_rows(plan),
             "output": np.zeros((tokens, y.shape[1]), np.float32),
             "hidden_size": y.shape[1], "top_k": top_k},
            writes=("output",),
        )  # fmt: skip


def aggregate_invert(dtype: Any) -> Iterator[Case]:
    del dtype
    for label, ids, experts in assignments():
        plan = planned(ids, experts)
        yield Case(
            label,
            {"sorted_token_ids": plan["tokens"], "sorted_slots": plan["slots"],
             "num_rows": _num_rows(plan), "row_of": np.full(ids.shape, -1, np.int32),
             "top_k": ids.shape[1]},
            writes=("row_of",),
        )  # fmt: skip


def aggregate_gather(dtype: Any) -> Iterator[Case]:
    for label, plan, y, weights in _aggregations(dtype):
        row_of = np.full(weights.shape, -1, np.int32)
        twins.aggregate_invert(plan["tokens"], plan["slots"], _num_rows(plan), row_of, 0)
        yield Case(
            label,
            {"y": y, "row_of": row_of, "topk_weights": weights,
             "output": unwritten((len(weights), y.shape[1]), np.float32),
             "hidden_size": y.shape[1], "top_k": weights.shape[1]},
            writes=("output",),
        )  # fmt: skip
