"""Which experts are worth a look."""

import numpy as np

from colibri_lab.engine.health import health
from colibri_lab.engine.stats import EngineStats


def stats(calls, tokens, compute_s):
    found = EngineStats.zeros(1, len(calls))
    found.calls[0], found.tokens[0], found.compute_s[0] = calls, tokens, compute_s
    return found


def test_never_called():
    assert health(stats([2, 0, 1], [2, 0, 1], [1, 0, 1])).never_called == [(0, 1)]
    assert health(EngineStats.zeros(1, 2)).slow == []


def test_a_slow_expert():
    found = health(stats([4, 4, 4, 4], [8, 8, 8, 8], [1, 1, 1, 5]))
    assert found.slow == [(0, 3, 5.0)]


def test_three_calls_are_too_few_to_say_only_below_three():
    assert health(stats([9, 9, 2], [9, 9, 2], [9, 9, 20])).slow == []
    assert health(stats([9, 9, 3], [9, 9, 3], [9, 9, 30])).slow == [(0, 2, 10.0)]


def test_few_or_many_tokens_a_call_make_no_expert_slow():
    # A call costs 1 s, and 0.1 s a token: expert 0 has one token a call, expert 3 a hundred.
    calls, tokens = np.full(4, 10), np.array([10, 100, 100, 1000])
    assert health(stats(calls, tokens, calls * 1.0 + tokens * 0.1)).slow == []
