"""BLAS threads are the whole process's: what open engines do to them, and what they leave."""

import gc
from itertools import permutations

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from colibri_lab.engine.blas import pin_blas


class Owner:
    """Whatever wants the threads."""


def threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def four_before():
    with threadpool_limits(4, user_api="blas"):
        yield
        assert threads() == {4}


def test_pinned_and_given_back():
    release = pin_blas(Owner, 1)
    assert threads() == {1}
    release()
    release()
    assert threads() == {4}


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_the_newest_that_is_open_decides(order):
    releases = {number: pin_blas(Owner, number + 1) for number in range(3)}
    assert threads() == {3}
    for number in order:
        releases.pop(number)()
        assert threads() == {max(releases) + 1 if releases else 4}


def test_who_is_dropped_pins_no_longer():
    owner = Owner()
    pin_blas(owner, 1)
    assert threads() == {1}
    del owner
    gc.collect()
    assert threads() == {4}
