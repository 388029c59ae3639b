"""Choosing the next token from logits."""

from __future__ import annotations

import numpy as np

from ..errors import InputError
from .router import softmax
from .weights import Array


def choose_token(
    logits: Array, temperature: float, top_p: float, generator: np.random.Generator
) -> int:
    """The best token at temperature 0 (ties to the lower id), else one drawn from the nucleus.

    logits : [V].   top_p : keep the fewest best tokens whose probability reaches it.
    Source: nucleus sampling, arXiv:1904.09751.
    """
    if temperature == 0.0:
        return int(np.argmax(logits))
    # The maximum goes first, so that a tiny temperature makes no difference of infinities.
    apart = np.asarray(logits, np.float64) - np.max(logits)
    with np.errstate(over="ignore"):
        probabilities = softmax(apart / temperature)
    order = np.argsort(-probabilities, kind="stable")
    before = np.cumsum(probabilities[order]) - probabilities[order]
    nucleus = order[before < top_p]
    shares = probabilities[nucleus]
    return int(generator.choice(nucleus, p=shares / shares.sum()))


def check_sampling(temperature: float, top_p: float, seed: int) -> None:
    """InputError where temperature, top_p or the seed cannot be used."""
    if seed < 0:
        raise InputError("seed is negative", expected="0 or more", found=seed)
    if not 0.0 <= temperature < np.inf:
        raise InputError(
            "temperature is out of range", expected="0 (greedy) or more", found=temperature
        )
    if not 0.0 < top_p <= 1.0:
        raise InputError("top_p is out of range", expected="over 0, at most 1", found=top_p)
