"""What the figures of a trace say of it: each trap in a trace made to have it, and in none else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from colibri_lab.reference.trace import DECODE, PREFILL, RoutingTrace
from colibri_lab.traces.stats import step_overlap, trace_stats
from colibri_lab.traces.suspicions import suspicions
from colibri_lab.traces.synthetic import make_trace as synthetic

STEPS, LAYERS, EXPERTS, TOP_K = 200, 4, 16, 2


def made(ids, phase=DECODE, weights=None, **fields):
    """A trace of one request.   ids : [steps, layers, k]."""
    ids = np.asarray(ids)
    step, layer, slot = np.indices(ids.shape, np.int32).reshape(3, -1)
    if weights is None:
        weights = np.broadcast_to(np.linspace(0.6, 0.4, ids.shape[2]), ids.shape)
    known = {"num_layers": ids.shape[1], "num_experts": EXPERTS, "top_k": ids.shape[2],
             "expert_bytes": (10,) * ids.shape[1]} | fields  # fmt: skip
    return RoutingTrace(
        phase=np.full(ids.size, phase, np.uint8), request=np.zeros(ids.size, np.int32), step=step,
        layer=layer, slot=slot, expert=ids.ravel().astype(np.int32),
        weight=np.asarray(weights, np.float32).ravel(), **known,
    )  # fmt: skip


def drawn(chances, steps=STEPS, seed=0):
    """[steps, layers, k] experts drawn anew for every step.   chances : [E]"""
    rng = np.random.default_rng(seed)
    keys = np.log(chances) + rng.gumbel(size=(steps, LAYERS, EXPERTS))
    return np.argsort(-keys, axis=2)[:, :, :TOP_K]


def sticky(seed=0):
    """Routing in which a layer keeps its experts for four steps."""
    return np.repeat(drawn(np.ones(EXPERTS), STEPS // 4, seed), 4, axis=0)


def joined(*traces):
    names = ("phase", "request", "step", "layer", "slot", "expert", "weight")
    columns = {name: np.concatenate([getattr(t, name) for t in traces]) for name in names}
    return replace(traces[0], **columns)


def test_an_ordinary_trace_is_not_suspected():
    assert suspicions(made(sticky())) == []


@pytest.mark.parametrize("seed", range(5))
def test_independent_uniform_routing(seed):
    (found,) = suspicions(made(drawn(np.ones(EXPERTS), seed=seed)))
    assert "slots over experts" in found
    assert f"would share {(STEPS - 1) * LAYERS * TOP_K**2 / EXPERTS:.0f}:" in found


def test_popular_experts_without_order():
    chances = 1.0 / np.arange(1, EXPERTS + 1)
    (found,) = suspicions(made(drawn(chances)))
    assert "shuffled order" in found
    assert suspicions(made(sticky(1))) == []


def test_few_steps_say_nothing_of_chance():
    assert suspicions(made(drawn(np.ones(EXPERTS), steps=4))) == []


def test_start_up_passes():
    weights = np.tile([0.7, 0.3], (STEPS, LAYERS, 1))
    weights[:10] = 0.5
    (found,) = suspicions(made(sticky(), weights=weights))
    assert "first 40 routed rows" in found
    weights[:3], weights[3:10] = 0.5, 0.7  # 12 rows are within what real weights may do
    weights[3:10, :, 1] = 0.3
    assert suspicions(made(sticky(), weights=weights)) == []
    assert suspicions(made(sticky(), weights=np.full(weights.shape, np.nan))) == []


def test_padding():
    ids = np.concatenate([sticky(), np.full((STEPS, LAYERS, 2), -1)], axis=2)
    (found,) = suspicions(made(ids))
    assert "top-k says 4, no token has more than 2" in found


def test_top_k_below_the_models_own():
    (found,) = suspicions(made(sticky(), model="gpt-oss-120b-Q4.gguf"))
    assert "top-2, the model's own is 4" in found
    assert suspicions(made(sticky(), model="Mixtral-8x7B")) == []


def test_restarting_steps():
    trace = made(sticky())
    (found,) = suspicions(replace(trace, step=trace.step % 180))
    assert found.startswith("request ids never change and steps restart: 160 assignments")


def test_prefill_after_decode():
    first, second = made(sticky()), made(sticky()[:3], PREFILL)
    second = replace(second, step=second.step + STEPS)
    (found,) = suspicions(joined(first, second))
    assert "request 0 has prefill after decode" in found
    other = replace(second, request=second.request + 1)
    assert suspicions(joined(first, other)) == []


def test_all_prefill_before_all_decode():
    decode = made(sticky()[20:])
    one = made(sticky()[:20], PREFILL), replace(decode, step=decode.step + 20)
    two = [replace(part, request=part.request + 1) for part in one]
    (found,) = suspicions(joined(one[0], two[0], one[1], two[1]))
    assert "sorted by phase" in found
    assert suspicions(joined(*one, *two)) == []


def test_warnings_reach_the_figures():
    found = trace_stats(made(drawn(np.ones(EXPERTS)), source="file; experts counted"))["warnings"]
    assert any("slots over experts" in text for text in found)
    assert "experts counted" in found


def test_overlap_by_hand():
    trace = made([[[0, 1], [2, 3]], [[1, 0], [4, 5]], [[0, 7], [4, 3]]])
    assert step_overlap(trace) == pytest.approx([3 / 4, 1 / 4])


def test_steps_numbered_by_billions_cost_no_memory():
    trace = made(sticky())
    far = replace(trace, step=trace.step + 2_000_000_000)
    assert step_overlap(far) == pytest.approx(step_overlap(trace))


def test_equal_weights_throughout_are_no_start_up_passes():
    trace = synthetic("zipf", num_tokens=40, num_layers=2, num_experts=8, top_k=2, expert_bytes=1)
    assert not [text for text in suspicions(trace) if "start-up" in text]
    mixed = trace.weight.copy()
    mixed[100:] = np.tile([0.7, 0.3], len(mixed) // 2 - 50)
    assert [text for text in suspicions(replace(trace, weight=mixed)) if "first 50 " in text]
