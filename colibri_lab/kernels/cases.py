"""Shapes at the edges, and the values that lie there: of input, routing and dispatch."""

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


def seeded(*seed: int) -> np.random.Generator:
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
            logits = seeded(experts, top_k).standard_normal((33, experts)) * 4
            yield _route(f"T 33, E {experts}, K {top_k}", logits, top_k, top_k % 2)
    for tokens in TOKENS:
        logits = seeded(tokens).standard_normal((tokens, 60))
        for top_k in (3, 4, 5, 6, 7):
            yield _route(f"T {tokens}, E 60, K {top_k}", logits, top_k, 1)
    tied = np.repeat(np.arange(8.0)[None], 4, 0) // 3
    yield _route("ties", tied, 4, 1)
    odd = seeded(9).standard_normal((4, 40))
    odd[0, 5:], odd[1, ::2], odd[2, 7] = -np.inf, -np.inf, np.nan
    odd[3] = -80.0 * np.arange(40)
    yield _route("minus infinity, no number, far apart", odd, 3, 1)


def route_fused(dtype: Any) -> Iterator[Case]:
    del dtype  # its operands are float32
    for tokens, hidden, experts, top_k in (
        (0, 16, 8, 2), (1, 33, 8, 2), (31, 64, 60, 4), (33, 40, 256, 8), (5, 7, 1, 1),
    ):  # fmt: skip
        rng = seeded(tokens, hidden, experts)
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


def assignments() -> Iterator[tuple[str, Array, int]]:
    """Label, topk_ids [T, K], E: spread, in one expert, dropped, none at all."""
    for experts in EXPERTS:
        top_k = min(4, experts)
        scores = seeded(experts).random((33, experts))
        ids = np.argsort(scores, axis=1)[:, :top_k].astype(np.int32)
        yield f"T 33, E {experts}, K {top_k}", ids, experts
    for tokens in TOKENS:
        ids = np.argsort(seeded(tokens).random((tokens, 8)), axis=1)[:, :2].astype(np.int32)
        yield f"T {tokens}, E 8, K 2", ids, 8
    yield "all in the last expert", np.full((33, 1), 59, np.int32), 60
    some = np.argsort(seeded(3).random((31, 8)), axis=1)[:, :3].astype(np.int32)
    some[::3, 1:] = -1
    yield "some dropped", some, 8
    yield "all dropped", np.full((5, 2), -1, np.int32), 8


def planned(ids: Array, experts: int) -> dict[str, Array]:
    """What dispatch makes of topk_ids: counts, offsets, tokens and slots."""
    counts, offsets = np.zeros(experts, np.int32), np.zeros(experts + 1, np.int32)
    tokens, slots = (unwritten(ids.size, np.int32) for _ in range(2))
    twins.dispatch_count(ids, counts, ids.size, experts)
    twins.dispatch_scan(counts, offsets, experts)
    twins.dispatch_scatter_stable(ids, offsets, tokens, slots, ids.size, ids.shape[1])
    return {"counts": counts, "offsets": offsets, "tokens": tokens, "slots": slots}


def dispatch_count(dtype: Any) -> Iterator[Case]:
    del dtype
    for label, ids, experts in assignments():
        yield Case(
            label,
            {"topk_ids": ids, "expert_counts": np.zeros(experts, np.int32),
             "num_assignments": ids.size, "num_experts": experts},
            writes=("expert_counts",),
        )  # fmt: skip


def dispatch_scan(dtype: Any) -> Iterator[Case]:
    del dtype
    for label, ids, experts in assignments():
        counts = planned(ids, experts)["counts"]
        yield Case(
            label,
            {"expert_counts": counts, "expert_offsets": unwritten(experts + 1, np.int32),
             "num_experts": experts},
            writes=("expert_offsets",),
        )  # fmt: skip


def dispatch_scatter_stable(dtype: Any) -> Iterator[Case]:
    del dtype
    for label, ids, experts in assignments():
        plan = planned(ids, experts)
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


def seq_offsets(dtype: Any) -> Iterator[Case]:
    del dtype
    for batch in (1, 31, 33, 1000):
        lengths = seeded(batch).integers(0, 50, batch).astype(np.int32)
        yield Case(
            f"B {batch}",
            {"lengths": lengths, "offsets": unwritten(batch + 1, np.int32), "batch_size": batch},
            writes=("offsets",),
        )


def pack_input(dtype: Any) -> Iterator[Case]:
    for batch, longest, hidden in ((1, 1, 1), (5, 7, 33), (3, 33, 64)):
        rng = seeded(batch, longest)
        lengths = rng.integers(0, longest + 1, batch)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        yield Case(
            f"B {batch}, S {longest}, H {hidden}",
            {"padded": rng.standard_normal((batch, longest, hidden)).astype(dtype),
             "offsets": offsets, "packed": unwritten((int(offsets[-1]), hidden), dtype),
             "max_seq_len": longest, "hidden_size": hidden},
            writes=("packed",),
        )  # fmt: skip
