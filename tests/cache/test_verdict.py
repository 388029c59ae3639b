"""Verdicts on made traces whose fault is known; every rule's words appear where they must."""

from pathlib import Path

import numpy as np
import pytest

from colibri_lab.cache.cost import Costs, Tier
from colibri_lab.cache.verdict import NO_DECODE, verdict
from tests.cache.test_replay import PUBLISHED, make_trace

DISK = Tier(gbps=1e-9)  # a byte a second: reading is all there is
FAST = Tier(gbps=1000.0)


def decode(tokens, requests=1, num_experts=8):
    """tokens : for each token the expert of layer 0 and of layer 1."""
    rows = [
        (1, step % requests, step, layer, 0, expert)
        for step, token in enumerate(tokens)
        for layer, expert in enumerate(token)
    ]
    return make_trace(rows, num_experts=num_experts, size=1)


CYCLE = [(step % 4, step % 4) for step in range(400)]  # eight experts, always in turn


def test_below_the_cliff():
    found = verdict(decode(CYCLE), 6, Costs(DISK, layer_s=0.0))
    assert "below the cliff at 7.63e-06 MiB" in found.text
    assert "lru finds 0.0%" in found.text
    assert "changing lru for" in found.text
    assert found.labels == ["below-the-cliff", "policy-bound"]


def test_nothing_to_gain_where_all_fits():
    found = verdict(decode(CYCLE), 8, Costs(DISK, layer_s=1.0))
    assert "No other policy here beats lru" in found.text
    assert "look at what a miss costs" in found.text
    assert "working set is too large" not in found.text
    assert found.labels == []


def test_working_set_bound():
    rng = np.random.default_rng(0)
    tokens = rng.integers(0, 8, (400, 2)).tolist()
    found = verdict(decode(tokens), 2, Costs(DISK, layer_s=0.0))
    assert "the working set is too large" in found.text
    assert "working-set-bound" in found.labels
    assert "Change first: twice the memory" in found.text


def test_prefetch_pays_where_guesses_are_right_and_in_time():
    found = verdict(decode([(0, 1)] * 300), 1, Costs(DISK, layer_s=1.0))
    assert "Prefetching would pay" in found.text
    late = verdict(decode([(0, 1)] * 300), 1, Costs(DISK, layer_s=0.001))
    assert "Prefetching would not pay" in late.text


def test_a_short_trace_of_one_request_is_called_so():
    found = verdict(decode(CYCLE[:20]), 4, Costs(DISK, layer_s=0.0))
    assert "provisional: the trace has 20 decode tokens, one request" in found.text
    assert "provisional" not in verdict(decode(CYCLE, requests=2), 4, Costs(DISK, 0.0)).text


def test_no_decode():
    rows = [(0, 0, step, layer, 0, 1) for layer in range(2) for step in range(5)]
    found = verdict(make_trace(rows, size=1), 4, Costs(DISK, layer_s=0.0))
    assert found.text == NO_DECODE
    assert found.changes == []


@pytest.mark.parametrize(("name", "mib"), [("gptoss", 500), ("gptoss", 3000)])
def test_on_a_real_trace(name, mib):
    from colibri_lab.traces.importers import import_trace

    file = Path(PUBLISHED) / f"{name}.route.csv"
    if not file.is_file():
        pytest.skip("the published traces are not here")
    text = verdict(import_trace(file), mib << 20, Costs(Tier(2.0), layer_s=0.002)).text
    assert ("below the cliff" in text) == (mib == 500)
    assert "64 decode tokens, one request" in text


def test_made_and_teacher_forced_traces_are_called_so():
    from colibri_lab.traces.synthetic import make_trace as synthetic

    made = synthetic("zipf", num_tokens=300, num_layers=2, num_experts=8, top_k=1, expert_bytes=1)
    assert "made-up routing" in verdict(made, 4, Costs(DISK, layer_s=0.0)).text


def test_tokens_that_take_no_time():
    prefill = [(0, 0, 0, 0, 0, expert) for expert in range(4)]
    trace = make_trace(
        [*prefill, *((1, 0, s, 0, 0, s % 4) for s in range(1, 9))], num_experts=8, size=1
    )
    assert "A token takes 0 s" in verdict(trace, 4, Costs(DISK, layer_s=0.0)).text
