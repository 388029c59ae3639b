"""Predictors and reading ahead on routings whose right answer is known."""

import pytest

from colibri_lab.cache.cost import Costs, Tier
from colibri_lab.cache.predictors import Frequency, LastToken, Markov
from colibri_lab.cache.prefetch import score_prefetch
from colibri_lab.errors import InputError
from tests.cache.test_cost import GB, two_layers

FAST = Costs(Tier(gbps=1000.0), layer_s=1.0)
ONE = GB  # room for one expert: nothing is in memory when it comes again


def score(calls, name, depth, costs=FAST, budget=ONE):
    return score_prefetch(calls, name, depth, budget, costs, "lru")


def test_frequency_ranks_by_use():
    predictor = Frequency()
    for used in ([1, 2], [2], [2, 3], [3]):
        predictor.learn(0, [], used)
    assert predictor.predict(0, []) == [2, 3, 1]
    assert predictor.predict(1, []) == []


def test_last_token_ranks_by_age():
    predictor = LastToken()
    for used in ([1, 2], [3]):
        predictor.learn(0, [], used)
    assert predictor.predict(0, []) == [3, 1, 2]


def test_markov_follows_the_layer_before():
    predictor = Markov()
    predictor.learn(1, [0], [2])
    predictor.learn(1, [0], [2])
    predictor.learn(1, [1], [3])
    assert predictor.predict(1, [0]) == [2]
    assert predictor.predict(1, [0, 1]) == [2, 3]
    assert predictor.predict(1, [2]) == []


def test_a_routing_that_repeats_is_guessed_but_for_the_first_token():
    calls = two_layers([[0], [5]] * 10)
    result = score(calls, "last-token", 1)
    assert result.accuracy == 1.0
    assert result.recall == pytest.approx(18 / 20)
    assert (result.useful_bytes, result.wasted_bytes) == (18 * GB, 0)
    assert result.in_time == 1.0


def test_nothing_is_read_that_is_in_memory():
    result = score(two_layers([[0], [5]] * 10), "last-token", 1, budget=2 * GB)
    assert result.accuracy == 1.0
    assert (result.useful_bytes, result.wasted_bytes) == (0, 0)


def test_each_layer_follows_the_one_before():
    # Layer 0 takes 0 and 1 in turn; layer 1 takes 2 after 0 and 3 after 1; layer 0 again knows
    # from layer 1 of the token before.
    calls = two_layers([[0], [6], [1], [7]] * 10)
    markov = score(calls, "markov", 1)
    assert markov.accuracy == 1.0
    assert markov.recall == pytest.approx((40 - 5) / 40)
    assert score(calls, "last-token", 1).accuracy == 0.0


def test_late_guesses_are_told():
    calls = two_layers([[0, 1], [4, 5]] * 10)
    slow = Costs(Tier(gbps=1.0), layer_s=1.5)  # a second an expert
    result = score(calls, "last-token", 2, slow, budget=2 * GB)
    assert result.accuracy == 1.0
    assert result.in_time == 0.5  # the first of two comes in time


def test_wrong_guesses_are_wasted():
    calls = two_layers([[0], [4], [1], [5], [2], [6], [3], [7]])
    result = score(calls, "last-token", 4, budget=4 * GB)
    # Four of the last layer's past experts are still in memory when they are guessed.
    assert result.accuracy == 0.0
    assert result.useful_bytes == 0
    assert result.wasted_bytes > 0
    assert result.recall == 0.0


@pytest.mark.parametrize(("name", "depth"), [("oracle", 1), ("markov", 0)])
def test_bad_arguments(name, depth):
    with pytest.raises(InputError, match="expected"):
        score(two_layers([[0]]), name, depth)


def test_prefill_is_learnt_from_and_not_scored():
    calls = two_layers([[0], [5]] * 2)
    calls.decode[:2] = False
    for name in ("frequency", "last-token"):
        assert score(calls, name, 1).recall == 1.0
