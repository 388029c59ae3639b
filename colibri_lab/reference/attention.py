"""Grouped-query attention with rotary positions and a key-value cache."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..config import ModelConfig
from .router import softmax
from .weights import Array, AttentionWeights


@dataclass
class KVCache:
    """Keys and values of the positions seen so far, a layer.

    keys, values : per layer, [B, num_kv_heads, S, head_dim] float64.
    """

    keys: dict[int, Array] = field(default_factory=dict)
    values: dict[int, Array] = field(default_factory=dict)

    @property
    def length(self) -> int:
        """Positions held."""
        return 0 if not self.keys else int(next(iter(self.keys.values())).shape[2])

    def append(self, layer: int, keys: Array, values: Array) -> tuple[Array, Array]:
        """Add new positions to a layer and return all of them."""
        if layer in self.keys:
            keys = np.concatenate([self.keys[layer], keys], axis=2)
            values = np.concatenate([self.values[layer], values], axis=2)
        self.keys[layer], self.values[layer] = keys, values
        return keys, values


def rope_tables(
    positions: NDArray[np.int64], head_dim: int, theta: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """cos and sin, [S, head_dim], halves repeated.   Source: RoFormer, arXiv:2104.09864."""
    frequencies = theta ** -(np.arange(0, head_dim, 2) / head_dim)
    angles = np.outer(positions, frequencies)
    angles = np.concatenate([angles, angles], axis=1)
    return np.cos(angles), np.sin(angles)


def apply_rope(x: Array, cos: Array, sin: Array) -> Array:
    """Turn x [..., S, head_dim]; pairs are (i, i + head_dim/2), as in Llama's checkpoints."""
    half = x.shape[-1] // 2
    turned = np.concatenate([-x[..., half:], x[..., :half]], axis=-1)
    return np.asarray(x * cos + turned * sin)


def attention_mask(
    num_queries: int, num_keys: int, sliding_window: int | None
) -> NDArray[np.bool_]:
    """[num_queries, num_keys], True where a query may look; queries are the last positions."""
    queries = np.arange(num_keys - num_queries, num_keys)[:, None]
    keys = np.arange(num_keys)[None, :]
    allowed = keys <= queries
    if sliding_window is not None:
        allowed &= keys > queries - sliding_window
    return allowed


def attention(
    x: Array, weights: AttentionWeights, config: ModelConfig, cache: KVCache, layer: int
) -> Array:
    """Causal self-attention over the new positions and those in the cache.

    x : [B, S, H] float64, already normalised.   Returns [B, S, H] float64.
    Source: GQA, arXiv:2305.13245.
    """
    start = 0 if layer not in cache.keys else cache.keys[layer].shape[2]
    positions = np.arange(start, start + x.shape[1])
    cos, sin = rope_tables(positions, config.head_dim, config.rope_theta)
    queries = apply_rope(_heads(x, weights.q, config.num_heads), cos, sin)
    new_keys = apply_rope(_heads(x, weights.k, config.num_kv_heads), cos, sin)
    keys, values = cache.append(layer, new_keys, _heads(x, weights.v, config.num_kv_heads))
    mask = attention_mask(x.shape[1], keys.shape[2], config.sliding_window)
    mixed = _attend(queries, keys, values, mask)
    return _project(mixed.swapaxes(1, 2).reshape(*x.shape[:2], -1), weights.o)


def _attend(queries: Array, keys: Array, values: Array, mask: NDArray[np.bool_]) -> Array:
    """[B, num_heads, S, head_dim]; each key-value head serves a group of query heads."""
    batch, _, length, head_dim = queries.shape
    grouped = queries.reshape(batch, keys.shape[1], -1, length, head_dim)
    scores = grouped @ keys[:, :, None].swapaxes(-1, -2) / np.sqrt(head_dim)
    probabilities = softmax(np.where(mask, scores, -np.inf))
    return np.asarray(probabilities @ values[:, :, None]).reshape(queries.shape)


def _heads(x: Array, weight: Array, num_heads: int) -> Array:
    """Project and split: [B, num_heads, S, head_dim]."""
    projected = _project(x, weight)
    return projected.reshape(*x.shape[:2], num_heads, -1).swapaxes(1, 2)


def _project(x: Array, weight: Array) -> Array:
    return np.asarray(x @ weight.astype(np.float64, copy=False).T, dtype=np.float64)
