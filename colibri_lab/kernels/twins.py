"""What each kernel computes, in NumPy: the same names, the same order of arguments.

Arrays that a kernel writes are written here, too. Sums are in float64. Shapes and dtypes are those
of the kernels' own heads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def route_topk(
    router_logits: Array,
    topk_ids: Array,
    topk_weights: Array,
    num_tokens: int,
    num_experts: int,
    top_k: int,
    renormalize: int,
) -> None:
    """Ties, and logits that are no number, go to the lower id."""
    logits = router_logits.reshape(num_tokens, num_experts).astype(np.float64)
    rank = np.where(np.isnan(logits), -np.inf, logits)
    topk_ids[:] = np.argsort(-rank, axis=1, kind="stable")[:, :top_k]
    chosen = np.take_along_axis(logits, topk_ids.astype(np.int64), axis=1)
    peak = chosen[:, :1] if top_k else 0.0
    with np.errstate(invalid="ignore"):  # minus infinity less itself, where all are so
        parts = np.exp(chosen - peak)
        whole = parts if renormalize else np.exp(logits - peak)
        topk_weights[:] = parts / whole.sum(axis=1, keepdims=True)


def route_fused(
    hidden_states: Array,
    router: Array,
    topk_ids: Array,
    topk_weights: Array,
    router_logits: Array | None,
    num_tokens: int,
    hidden_size: int,
    num_experts: int,
    top_k: int,
    renormalize: int,
) -> None:
    x = hidden_states.reshape(num_tokens, hidden_size).astype(np.float64)
    logits = x @ router.reshape(hidden_size, num_experts).astype(np.float64)
    if router_logits is not None:
        router_logits[:] = logits
    route_topk(logits, topk_ids, topk_weights, num_tokens, num_experts, top_k, renormalize)


def dispatch_count(
    topk_ids: Array, expert_counts: Array, num_assignments: int, num_experts: int
) -> None:
    flat = topk_ids.ravel()[:num_assignments]
    expert_counts += np.bincount(flat[flat >= 0], minlength=num_experts)


def dispatch_scan(expert_counts: Array, expert_offsets: Array, num_experts: int) -> None:
    expert_offsets[0] = 0
    expert_offsets[1:] = np.cumsum(expert_counts[:num_experts])


def dispatch_scatter_stable(
    topk_ids: Array,
    expert_offsets: Array,
    sorted_token_ids: Array,
    sorted_slots: Array,
    num_assignments: int,
    top_k: int,
) -> None:
    flat = topk_ids.ravel()[:num_assignments]
    order = np.argsort(flat, kind="stable")
    order = order[np.count_nonzero(flat < 0) :]
    sorted_token_ids[: len(order)] = order // top_k
    sorted_slots[: len(order)] = order % top_k


def dispatch_scatter_atomic(
    topk_ids: Array,
    expert_offsets: Array,
    expert_counts: Array,
    sorted_token_ids: Array,
    sorted_slots: Array,
    num_assignments: int,
    top_k: int,
) -> None:
    """In one of the orders that the kernel may take: that of the tokens."""
    dispatch_count(topk_ids, expert_counts, num_assignments, len(expert_counts))
    dispatch_scatter_stable(
        topk_ids, expert_offsets, sorted_token_ids, sorted_slots, num_assignments, top_k
    )


def expert_gemm(
    x: Array,
    row_ids: Array | None,
    expert_offsets: Array,
    expert_slots: Array | None,
    weights: Array,
    y: Array,
    num_experts: int,
    inner: int,
    outer: int,
) -> None:
    """Rows of an expert without a slot are left as they are."""
    for expert in range(num_experts):
        rows = slice(int(expert_offsets[expert]), int(expert_offsets[expert + 1]))
        slot = expert if expert_slots is None else int(expert_slots[expert])
        if slot >= 0:
            chosen = x[rows] if row_ids is None else x[row_ids[rows]]
            y[rows] = chosen.astype(np.float64) @ weights[slot].astype(np.float64).T


def silu_mul(gate: Array, up: Array, h: Array, num_values: int) -> None:
    g, u = gate.ravel()[:num_values].astype(np.float64), up.ravel()[:num_values].astype(np.float64)
    with np.errstate(over="ignore"):
        h.reshape(-1)[:num_values] = g / (1.0 + np.exp(-g)) * u


def fused_swiglu(
    x: Array,
    row_ids: Array,
    expert_offsets: Array,
    expert_slots: Array | None,
    gate_weights: Array,
    up_weights: Array,
    h: Array,
    num_experts: int,
    hidden_size: int,
    intermediate_size: int,
) -> None:
    rows = int(expert_offsets[num_experts])
    gate, up = (np.zeros((rows, intermediate_size)) for _ in range(2))
    sizes = (num_experts, hidden_size, intermediate_size)
    expert_gemm(x, row_ids, expert_offsets, expert_slots, gate_weights, gate, *sizes)
    expert_gemm(x, row_ids, expert_offsets, expert_slots, up_weights, up, *sizes)
    made = np.zeros((rows, intermediate_size))
    silu_mul(gate, up, made, made.size)
    there = _has_slot(expert_offsets, expert_slots, rows)
    h[:rows][there] = made[there]


def _has_slot(expert_offsets: Array, expert_slots: Array | None, rows: int) -> Array:
    """[rows] whether each row's expert has its weights anywhere."""
    if expert_slots is None:
        return np.ones(rows, bool)
    found: Array = np.repeat(expert_slots >= 0, np.diff(expert_offsets))
    return found


def fused_expert(
    x: Array,
    row_ids: Array,
    expert_offsets: Array,
    expert_slots: Array | None,
    gate_weights: Array,
    up_weights: Array,
    down_weights: Array,
    y: Array,
    num_experts: int,
    hidden_size: int,
    intermediate_size: int,
) -> None:
    rows = int(expert_offsets[num_experts])
    h = np.zeros((rows, intermediate_size))
    fused_swiglu(
        x, row_ids, expert_offsets, expert_slots, gate_weights, up_weights, h,
        num_experts, hidden_size, intermediate_size,
    )  # fmt: skip
    added = np.zeros((rows, hidden_size))
    expert_gemm(
        h, None, expert_offsets, expert_slots, down_weights, added,
        num_experts, intermediate_size, hidden_size,
    )  # fmt: skip
    y[:rows] += added


def aggregate_atomic(
    y: Array,
    sorted_token_ids: Array,
    sorted_slots: Array,
    topk_weights: Array,
    num_rows: Array,
    output: Array,
    hidden_size: int,
    top_k: int,
) -> None:
    rows = slice(int(num_rows[0]))
    weight = topk_weights[sorted_token_ids[rows], sorted_slots[rows]].astype(np.float64)
    total = np.zeros(output.shape)
    np.add.at(total, sorted_token_ids[rows], weight[:, None] * y[rows].astype(np.float64))
    output += total.astype(output.dtype)


def aggregate_invert(
    sorted_token_ids: Array, sorted_slots: Array, num_rows: Array, row_of: Array, top_k: int
) -> None:
    rows = int(num_rows[0])
    row_of[sorted_token_ids[:rows], sorted_slots[:rows]] = np.arange(rows)


def aggregate_gather(
    y: Array, row_of: Array, topk_weights: Array, output: Array, hidden_size: int, top_k: int
) -> None:
    there = row_of >= 0
    rows = y[np.where(there, row_of, 0)].astype(np.float64)  # [T, K, H]
    weights = np.where(there, topk_weights.astype(np.float64), 0.0)
    output[:] = np.einsum("tk,tkh->th", weights, np.where(there[..., None], rows, 0.0))


def seq_offsets(lengths: Array, offsets: Array, batch_size: int) -> None:
    offsets[0] = 0
    offsets[1:] = np.cumsum(lengths[:batch_size])


def pack_input(
    padded: Array, offsets: Array, packed: Array, max_seq_len: int, hidden_size: int
) -> None:
    for sequence, start in enumerate(offsets[:-1]):
        length = int(offsets[sequence + 1] - start)
        packed[start : start + length] = padded[sequence, :length]
