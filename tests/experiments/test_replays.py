"""The front door to replays gives what the replays give, as a table."""

import pytest

import colibri_lab as cl
from colibri_lab.cache import Rules
from colibri_lab.errors import InputError
from colibri_lab.traces.synthetic import make_trace

TRACE = make_trace("zipf", num_tokens=40, num_layers=2, num_experts=8, top_k=2, expert_bytes=10)


def test_a_row_for_each_policy_and_budget():
    frame = cl.replay(TRACE, policies=["lru", "belady"], budget_bytes=[40, 80])
    assert frame[["policy", "budget_bytes"]].values.tolist() == [
        ["lru", 40], ["belady", 40], ["lru", 80], ["belady", 80]
    ]  # fmt: skip
    assert (frame[frame.policy == "belady"].regret == 0).all()
    by_slots = cl.replay(TRACE, slots=[4, 8])
    assert by_slots.misses.tolist() == frame.misses.tolist()


def test_options_reach_the_replay():
    (split,) = cl.replay(TRACE, ["lru"], slots=[8], per_layer=True).per_layer
    assert split
    bypass = cl.replay(TRACE, ["belady"], slots=[4], rules=Rules(bypass=True))
    assert bypass.misses[0] < cl.replay(TRACE, ["belady"], slots=[4]).misses[0]


@pytest.mark.parametrize(
    "options", [{"policies": "lru", "slots": [4]}, {"slots": 4}, {"budget_bytes": 100}]
)
def test_what_is_no_list(options):
    with pytest.raises(InputError, match="must be a list"):
        cl.replay(TRACE, **options)


@pytest.mark.parametrize("options", [{}, {"policies": [], "slots": [4]}])
def test_nothing_to_replay(options):
    with pytest.raises(InputError, match="policies and budgets"):
        cl.replay(TRACE, **options)
