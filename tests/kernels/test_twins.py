"""The twins against the reference, which was not written for them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colibri_lab.config import RoutingRule
from colibri_lab.errors import InputError
from colibri_lab.kernels import CATALOG, find, twins
from colibri_lab.kernels.case import unwritten
from colibri_lab.kernels.geometry import TILE, tiles
from colibri_lab.reference import dispatch, moe_layer, route
from colibri_lab.reference.weights import ExpertWeights, MoELayerWeights


@pytest.mark.parametrize("order", ["softmax_topk", "topk_softmax"])
@pytest.mark.parametrize("renormalize", [False, True])
def test_routing_is_the_references(order, renormalize):
    rng = np.random.default_rng(0)
    x, router = rng.standard_normal((20, 16)), rng.standard_normal((16, 12))
    ids, weights = np.empty((20, 3), np.int32), np.empty((20, 3))
    flag = int(renormalize or order == "topk_softmax")
    twins.route_fused(x, router, ids, weights, None, 20, 16, 12, 3, flag)
    truth = route(x, router, 3, RoutingRule(order=order, renormalize=renormalize))
    assert np.array_equal(ids, truth.topk_ids)
    assert weights == pytest.approx(truth.topk_weights, abs=1e-6)


def test_a_layer_out_of_twins_is_the_references():
    """Route, dispatch, gate, up, SiLU, down, aggregate, by both ways of adding up."""
    rng = np.random.default_rng(1)
    tokens, hidden, inner, experts, top_k = 19, 12, 20, 6, 2
    x = rng.standard_normal((tokens, hidden))
    gate, up = rng.standard_normal((2, experts, inner, hidden))
    down = rng.standard_normal((experts, hidden, inner))
    router = rng.standard_normal((hidden, experts))
    each = tuple(ExpertWeights(*parts) for parts in zip(gate, up, down, strict=True))
    truth = moe_layer(x, MoELayerWeights(router, each), top_k)
    assigned = truth.assigned
    counts, offsets = np.zeros(experts, np.int32), np.zeros(experts + 1, np.int32)
    rows, slots = np.empty((2, tokens * top_k), np.int32)
    twins.dispatch_count(assigned.topk_ids, counts, tokens * top_k, experts)
    twins.dispatch_scan(counts, offsets, experts)
    twins.dispatch_scatter_stable(assigned.topk_ids, offsets, rows, slots, tokens * top_k, top_k)
    plan = dispatch(assigned.topk_ids, experts)
    assert np.array_equal(rows, plan.sorted_token_ids)
    assert np.array_equal(slots, plan.sorted_slots)
    y = np.zeros((tokens * top_k, hidden))
    sizes = (experts, hidden, inner)
    twins.fused_expert(x, rows, offsets, None, gate, up, down, y, *sizes)
    count, row_of = np.array([len(rows)]), np.full((tokens, top_k), -1, np.int32)
    added, gathered = np.zeros((2, tokens, hidden))
    weights = assigned.topk_weights
    twins.aggregate_atomic(y, rows, slots, weights, count, added, hidden, top_k)
    twins.aggregate_invert(rows, slots, count, row_of, top_k)
    twins.aggregate_gather(y, row_of, weights, gathered, hidden, top_k)
    assert added == pytest.approx(truth.hidden_states, abs=1e-9)
    assert gathered == pytest.approx(truth.hidden_states, abs=1e-9)


def test_packing_by_hand():
    padded = np.arange(12.0).reshape(2, 3, 2)
    offsets, packed = np.empty(3, np.int32), np.empty((3, 2))
    twins.seq_offsets(np.array([1, 2]), offsets, 2)
    twins.pack_input(padded, offsets, packed, 3, 2)
    assert offsets.tolist() == [0, 1, 3]
    assert packed.tolist() == [[0, 1], [6, 7], [8, 9]]


@given(st.lists(st.integers(0, 40), min_size=1, max_size=12))
def test_there_are_blocks_for_all_tiles(rows):
    needed = sum(-(-count // TILE) for count in rows)
    sizes = {"num_rows": sum(rows), "num_experts": len(rows), "outer": 40}
    launch = tiles("outer")(sizes, 0)
    assert launch.is_empty if not sum(rows) else launch.grid[1] >= needed


def test_names_are_found():
    assert [kernel.entry for kernel in find(["expert_gemm"])] == [
        "expert_gemm_naive", "expert_gemm_tiled", "expert_gemm_wmma"
    ]  # fmt: skip
    assert len(find([])) == len(CATALOG) == len({kernel.entry for kernel in CATALOG})
    with pytest.raises(InputError, match="not known"):
        find(["magic"])


@pytest.mark.parametrize("kernel", CATALOG, ids=lambda kernel: kernel.entry)
def test_sources_are_short_and_say_what_they_do(kernel):
    text = kernel.path.read_text(encoding="utf-8")
    assert text.count("\n") <= 150
    assert kernel.entry in text
    assert text.startswith("// ")


def test_the_sentinel_is_no_value():
    assert np.isfinite(unwritten(3, np.float32)).all()
    assert abs(unwritten(1, np.float32)[0]) < 1e-15  # no sum comes out so
