"""Measures of routing: what experts know of domains, how even the load is, what a cache hits.

All take ``top1 [S, T]`` or ``ids [S, T, K]`` of one layer, S sequences of T tokens,
``labels [S]``, the domain of each sequence, and ``inputs [S, T]``, the token ids.
"""

from collections import OrderedDict
from collections.abc import Callable

import numpy as np

Array = np.ndarray
SHUFFLES = 20


def mutual_information_bits(first: Array, second: Array) -> float:
    """Return the plug-in estimate of the mutual information of two label arrays, in bits."""
    joint = np.zeros((first.max() + 1, second.max() + 1))
    np.add.at(joint, (first, second), 1)
    joint /= joint.sum()
    product = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    seen = joint > 0
    return float((joint[seen] * np.log2(joint[seen] / product[seen])).sum())


def shuffle_within(groups: Array, values: Array, rng: np.random.Generator) -> Array:
    """Return the values permuted at random among the positions of equal group."""
    shuffled = rng.permutation(len(values))
    by_group = shuffled[np.argsort(groups[shuffled], kind="stable")]
    result = np.empty_like(values)
    result[by_group] = values[np.argsort(groups, kind="stable")]
    return result


def domain_information(
    top1: Array, labels: Array, inputs: Array, rng: np.random.Generator
) -> dict[str, float]:
    """Return the information of domain and expert beside three shuffled controls.

    Shuffling the labels of tokens shows the bias of the estimate. Shuffling those of whole
    sequences keeps what tokens of one sequence share, and is stricter. Shuffling experts among
    the occurrences of the same token keeps what the vocabulary alone tells of the domain: what
    is above it comes from context.
    """
    tokens = top1.shape[1]
    by_token, experts = np.repeat(labels, tokens), top1.ravel()

    def average(shuffled: Callable[[], tuple[Array, Array]]) -> float:
        return float(np.mean([mutual_information_bits(*shuffled()) for _ in range(SHUFFLES)]))

    return {
        "bits": mutual_information_bits(by_token, experts),
        "token_shuffled_bits": average(lambda: (rng.permutation(by_token), experts)),
        "sequence_shuffled_bits": average(
            lambda: (np.repeat(rng.permutation(labels), tokens), experts)
        ),
        "same_token_shuffled_bits": average(
            lambda: (by_token, shuffle_within(inputs.ravel(), experts, rng))
        ),
    }


def load_balance(ids: Array, experts: int) -> dict[str, float]:
    """Return how unevenly the experts are used over all sequences."""
    load = np.bincount(ids.ravel(), minlength=experts)
    return {
        "busiest_over_mean": float(load.max() / load.mean()),
        "idlest_over_mean": float(load.min() / load.mean()),
        "dead_experts": int((load == 0).sum()),
    }


def lru_hit_ratio(ids: Array, slots: int) -> float:
    """Return the share of accesses an LRU cache of ``slots`` experts serves, from cold."""
    cache: OrderedDict[int, None] = OrderedDict()
    hits = 0
    for expert in ids.ravel().tolist():
        hits += expert in cache
        cache[expert] = None
        cache.move_to_end(expert)
        if len(cache) > slots:
            cache.popitem(last=False)
    return hits / ids.size


def cache_locality(
    ids: Array, labels: Array, slots: int, rng: np.random.Generator
) -> dict[str, float]:
    """Return LRU hit ratios in text order and with the tokens shuffled, two ways."""
    stream = ids.reshape(-1, ids.shape[-1])
    domain = np.repeat(labels, ids.shape[1])
    positions = np.arange(len(stream))
    within = shuffle_within(domain, positions, rng)
    shuffled = rng.permutation(positions)
    return {
        "text_order": lru_hit_ratio(stream, slots),
        "shuffled_within_domains": lru_hit_ratio(stream[within], slots),
        "shuffled": lru_hit_ratio(stream[shuffled], slots),
    }
