"""Shapes at the edges, and the values that lie there: what every kernel is checked with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import twins
from .case import Case, unwritten

Array = NDArray[Any]
TOKENS = (0, 1, 31, 33)
EXPERTS = (1, 8, 60, 64, 128, 256)


def _rng(*seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def _route(label: str, logits: Array, top_k: int, renormalize: int) -> Case:
    tokens, experts = logits.shape
    return Case(
        label,
        {
            "router_logits": logits.astype(np.float32),
            "topk_ids": unwritten((tokens, top_k), np.int32),
            "topk_weights": unwritten((tokens, top_k), np.float32),
            "num_tokens": tokens,
            "num_experts": experts,
            "top_k": top_k,
            "renormalize": renormalize,
        },
        writes=("topk_ids", "topk_weights"),
    )


def route_topk(dtype: Any) -> Iterator[Case]:
    """Every number of experts and every top-k, ties, infinities, no numbers."""
    del dtype  # logits and weights are float32 whatever is stored
    for experts in EXPERTS:
        for top_k in sorted({1, min(2, experts), min(8, experts)}):
            logits = _rng(experts, top_k).standard_normal((33, experts)) * 4
            yield _route(f"T 33, E {experts}, K {top_k}", logits, top_k, top_k % 2)
    for tokens in TOKENS:
        logits = _rng(tokens).standard_normal((tokens, 60))
        for top_k in (3, 4, 5, 6, 7):
            yield _route(f"T {tokens}, E 60, K {top_k}", logits, top_k, 1)
    tied = np.repeat(np.arange(8.0)[None], 4, 0) // 3
    yield _route("ties", tied, 4, 1)
    odd = _rng(9).standard_normal((4, 40))
    odd[0, 5:], odd[1, ::2], odd[2, 7] = -np.inf, -np.inf, np.nan
    odd[3] = -80.0 * np.arange(40)
    yield _route("minus infinity, no number, far apart", odd, 3, 1)


def route_fused(dtype: Any) -> Iterator[Case]:
    del dtype  # its operands are float32
    for tokens, hidden, experts, top_k in (
        (0, 16, 8, 2), (1, 33, 8, 2), (31, 64, 60, 4), (33, 40, 256, 8), (5, 7, 1, 1),
    ):  # fmt: skip
        rng = _rng(tokens, hidden, experts)
        yield Case(
            f"T {tokens}, H {hidden}, E {experts}, K {top_k}",
            {
                "hidden_states": rng.standard_normal((tokens, hidden)).astype(np.float32),
                "router": rng.standard_normal((hidden, experts)).astype(np.float32),
                "topk_ids": unwritten((tokens, top_k), np.int32),
                "topk_weights": unwritten((tokens, top_k), np.float32),
                "router_logits": unwritten((tokens, experts), np.float64) if tokens % 2 else None,
                "num_tokens": tokens,
                "hidden_size": hidden,
                "num_experts": experts,
                "top_k": top_k,
                "renormalize": tokens % 2,
            },
            writes=("topk_ids", "topk_weights", "router_logits"),
        )


def _assignments() -> Iterator[tuple[str, Array, int]]:
    """Label, topk_ids [T, K], E: spread, in one expert, dropped, none at all."""
    for experts in EXPERTS:
        top_k = min(4, experts)
        scores = _rng(experts).random((33, experts))
        ids = np.argsort(scores, axis=1)[:, :top_k].astype(np.int32)
        yield f"T 33, E {experts}, K {top_k}", ids, experts
    for tokens in TOKENS:
        ids = np.argsort(_rng(tokens).random((tokens, 8)), axis=1)[:, :2].astype(np.int32)
        yield f"T {tokens}, E 8, K 2", ids, 8
    yield "all in the last expert", np.full((33, 1), 59, np.int32), 60
    some = np.argsort(_rng(3).random((31, 8)), axis=1)[:, :3].astype(np.int32)
    some[::3, 1:] = -1
    yield "some dropped", some, 8
    yield "all dropped", np.full((5, 2), -1, np.int32), 8


def _sorted(ids: Array, experts: int) -> dict[str, Array]:
    """What dispatch makes of topk_ids: counts, offsets, tokens and slots."""
    counts, offsets = np.zeros(experts, np.int32), np.zeros(experts + 1, np.int32)
    tokens, slots = (unwritten(ids.size, np.int32) for _ in range(2))
    twins.dispatch_count(ids, counts, ids.size, experts)
    twins.dispatch_scan(counts, offsets, experts)
    twins.dispatch_scatter_stable(ids, offsets, tokens, slots, ids.size, ids.shape[1])
    return {"counts": counts, "offsets": offsets, "tokens": tokens, "slots": slots}


def dispatch_count(dtype: Any) -> Iterator[Case]:
    del dtype
    for label, ids, experts in _assignments():
        yield Case(
            label,
            {"topk_ids": ids, "expert_counts": np.zeros(experts, np.int32),
             "num_assignments": ids.size, "num_experts": experts},
            writes=("expert_counts",),
        )  # fmt: skip


def dispatch_scan(dtype: Any) -> Iterator[Case]:
    del dtype
    for label, ids, experts in _assignments():
        counts = _sorted(ids, experts)["counts"]
        yield Case(
            label,
            {"expert_counts": counts, "expert_offsets": unwritten(experts + 1, np.int32),
             "num_experts": experts},
            writes=("expert_offsets",),
        )  # fmt: skip


def dispatch_scatter_stable(dtype: Any) -> Iterator[Case]:
    del dtype
    for label, ids, experts in _assignments():
        plan = _sorted(ids, experts)
        rows = int(plan["offsets"][-1])
        yield Case(
            label,
            {"topk_ids": ids, "expert_offsets": plan["offsets"],
             "sorted_token_ids": unwritten(ids.size, np.int32),
             "sorted_slots": unwritten(ids.size, np.int32),
             "num_assignments": ids.size, "top_k": ids.shape[1]},
            writes=("sorted_token_ids", "sorted_slots"),
            written={"sorted_token_ids": rows, "sorted_slots": rows},
        )  # fmt: skip


def dispatch_scatter_atomic(dtype: Any) -> Iterator[Case]:
    for case in dispatch_scatter_stable(dtype):
        offsets = case.arguments["expert_offsets"]
        counts = np.zeros(len(offsets) - 1, np.int32)
        names = list(case.arguments)
        arguments: dict[str, Any] = {}
        for name in names:
            arguments[name] = case.arguments[name]
            if name == "expert_offsets":
                arguments["expert_counts"] = counts
        yield Case(
            case.label, arguments, writes=("expert_counts", *case.writes),
            written=case.written, any_order=case.writes,
        )  # fmt: skip


def _experts(dtype: Any, multiple: int = 1) -> Iterator[tuple[str, dict[str, Any]]]:
    """Label, and the operands of the expert kernels at awkward sizes."""
    for tokens, hidden, inner, experts, top_k in (
        (0, 16, 16, 8, 2), (1, 33, 17, 8, 2), (31, 40, 24, 60, 4), (33, 64, 48, 1, 1),
        (33, 17, 33, 8, 8), (40, 32, 16, 128, 2),
    ):  # fmt: skip
        sizes = [-(-size // multiple) * multiple for size in (hidden, inner)]
        rng = _rng(tokens, hidden, inner)
        ids = np.argsort(rng.random((tokens, experts)), axis=1)[:, :top_k].astype(np.int32)
        label = f"T {tokens}, H {sizes[0]}, I {sizes[1]}, E {experts}, K {top_k}"
        yield label, operands(dtype, ids, experts, sizes[0], sizes[1], rng)
    ids = np.argsort(_rng(5).random((31, 8)), axis=1)[:, :2].astype(np.int32)
    moved = operands(dtype, ids, 8, 32, 16, _rng(6))
    moved["slots"] = np.array([3, 1, 7, 0, 2, 4, 6, 5], np.int32)
    yield "in other slots", moved
    lone = np.full((33, 1), 5, np.int32)
    yield "all in one expert", operands(dtype, lone, 8, 32, 16, _rng(1))
    dropped = np.where(_rng(2).random((31, 2)) < 0.4, -1, 3).astype(np.int32)
    dropped[:, 1] = np.where(dropped[:, 1] < 0, -1, 6)
    yield "some dropped", operands(dtype, dropped, 8, 32, 16, _rng(3))


def operands(
    dtype: Any, ids: Array, experts: int, hidden: int, inner: int, rng: np.random.Generator
) -> dict[str, Any]:
    plan = _sorted(ids, experts)

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
            rows = _rng(7).standard_normal((len(given["ids"].ravel()), given["inner"]))
            yield _gemm(f"{label}, not gathered", given, rows.astype(dtype), None, given["down"])
    huge = operands(dtype, np.zeros((3, 1), np.int32), 1, 32, 16, _rng(4))
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
        gate, up = _rng(size).standard_normal((2, size)).astype(dtype) * 3
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
    for label, ids, experts in _assignments():
        for hidden in (40,) if len(ids) == 33 else (1, 33):
            rng = _rng(ids.size, hidden)
            y = rng.standard_normal((ids.size, hidden)).astype(dtype)
            weights = rng.random(ids.shape).astype(np.float32)
            yield f"{label}, H {hidden}", {**_sorted(ids, experts), "ids": ids}, y, weights


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
    for label, ids, experts in _assignments():
        plan = _sorted(ids, experts)
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


def seq_offsets(dtype: Any) -> Iterator[Case]:
    del dtype
    for batch in (1, 31, 33, 1000):
        lengths = _rng(batch).integers(0, 50, batch).astype(np.int32)
        yield Case(
            f"B {batch}",
            {"lengths": lengths, "offsets": unwritten(batch + 1, np.int32), "batch_size": batch},
            writes=("offsets",),
        )


def pack_input(dtype: Any) -> Iterator[Case]:
    for batch, longest, hidden in ((1, 1, 1), (5, 7, 33), (3, 33, 64)):
        rng = _rng(batch, longest)
        lengths = rng.integers(0, longest + 1, batch)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        yield Case(
            f"B {batch}, S {longest}, H {hidden}",
            {"padded": rng.standard_normal((batch, longest, hidden)).astype(dtype),
             "offsets": offsets, "packed": unwritten((int(offsets[-1]), hidden), dtype),
             "max_seq_len": longest, "hidden_size": hidden},
            writes=("packed",),
        )  # fmt: skip
