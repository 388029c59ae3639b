"""Score the held-out texts with interpolated Kneser-Ney trigrams on the same training tokens.

One trigram is trained on all domains together and one on each domain alone; the second knows what
the domain is, which the model is never told. Writes ``<work>/baseline.json``.
"""

import argparse
import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
from text import domains, heldout_windows, load_tokens
from tokenizer import VOCABULARY as V

Array = np.ndarray


class Order(NamedTuple):
    """Counts of one n-gram order, sorted by key; contexts are keys without the last token."""

    keys: Array
    counts: Array
    contexts: Array
    totals: Array  # of the counts, a context
    distinct: Array  # different successors, a context
    discount: float


def count_order(keys: Array, counts: Array) -> Order:
    """Gather the statistics of one order; the discount is n1 / (n1 + 2 n2) (Ney et al., 1994)."""
    contexts, inverse = np.unique(keys // V, return_inverse=True)
    once, twice = (counts == 1).sum(), (counts == 2).sum()
    totals = np.bincount(inverse, weights=counts)
    return Order(keys, counts, contexts, totals, np.bincount(inverse), once / (once + 2 * twice))


def look_up(keys: Array, values: Array, wanted: Array) -> Array:
    """Return the value of each wanted key, 0 where it is absent."""
    index = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[index] == wanted, values[index], 0)


def interpolate(order: Order, context: Array, token: Array, lower: Array) -> Array:
    """Return discounted probabilities, the freed mass going to the lower order."""
    count = look_up(order.keys, order.counts, context * V + token)
    total = look_up(order.contexts, order.totals, context)
    freed = order.discount * look_up(order.contexts, order.distinct, context)
    mixed = np.maximum(count - order.discount, 0) + freed * lower
    return np.where(total > 0, mixed / np.maximum(total, 1), lower)


def train_trigram(tokens: Array) -> tuple[Array, Order, Order]:
    """Return unigram probabilities and the two upper orders; lower ones count continuations."""
    t = tokens.astype(np.int64)
    trigrams, counts = np.unique((t[:-2] * V + t[1:-1]) * V + t[2:], return_counts=True)
    bigrams, continuations = np.unique(trigrams % (V * V), return_counts=True)
    unigram = np.bincount(bigrams % V, minlength=V) + 0.5
    return (
        unigram / unigram.sum(),
        count_order(bigrams, continuations),
        count_order(trigrams, counts),
    )


def losses(trigram: tuple[Array, Order, Order], tokens: Array, scored: int) -> Array:
    """Return nats for tokens 1 to ``scored``; the first has an end-of-text before its context."""
    unigram, second, third = trigram
    t = np.concatenate([[0], tokens[: scored + 1]]).astype(np.int64)
    first, middle, last = t[:-2], t[1:-1], t[2:]
    lower = interpolate(second, middle, last, unigram[last])
    return -np.log(interpolate(third, first * V + middle, last, lower))


def check_sums_to_one(trigram: tuple[Array, Order, Order]) -> None:
    """Check that the probabilities after some contexts sum to one over the vocabulary."""
    unigram, second, third = trigram
    token = np.arange(V)
    for key in (int(third.contexts[len(third.contexts) // 2]), V * V - 1):
        lower = interpolate(second, np.full(V, key % V), token, unigram)
        total = interpolate(third, np.full(V, key), token, lower).sum()
        if abs(total - 1) > 1e-9:
            raise ArithmeticError(f"trigram probabilities sum to {total} after context {key}")


def main() -> None:
    """Train the trigrams and write their losses."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=Path("build/sample-model"))
    work = parser.parse_args().work
    train = {domain: load_tokens(work, domain, "train") for domain in domains(work)}
    everything = train_trigram(np.concatenate(list(train.values())))
    check_sums_to_one(everything)
    result = {}
    for domain, tokens in train.items():
        held = load_tokens(work, domain, "held")
        scored = heldout_windows(held)[:, 1:].size
        result[domain] = {
            "all_domains_nats_per_token": float(losses(everything, held, scored).mean()),
            "own_domain_nats_per_token": float(losses(train_trigram(tokens), held, scored).mean()),
        }
        print(domain, result[domain])
    (work / "baseline.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
