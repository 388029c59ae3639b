"""Self-attention: grouped-query, and DeepSeek's latent form, with a key-value cache."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .kv_cache import KVCache
from .norm import rms_norm
from .rope import Rope
from .router import softmax
from .weights import Array


@dataclass(frozen=True)
class Linear:
    """x -> weight x + bias.   weight : [out, in].   bias : [out] or None."""

    weight: Array
    bias: Array | None = None

    def __call__(self, x: Array) -> Array:
        product = x @ self.weight.astype(np.float64, copy=False).T
        return np.asarray(product if self.bias is None else product + self.bias)


@dataclass(frozen=True)
class GroupedQueryAttention:
    """Causal attention in which a key-value head serves a group of query heads.

    q : to num_heads * head_dim;  k, v : to num_kv_heads * head_dim;  o : back to H.
    q_norm, k_norm : [head_dim], of each head (Qwen3), or of the whole width (OLMoE), or None.
    sinks : [num_heads], logits that take a share of the softmax and give nothing (gpt-oss).
    clip : queries, keys and values are cut at +-clip, after their norms (OLMoE).
    sliding_window : tokens looked back on, the token itself included.
    Source: GQA, arXiv:2305.13245.
    """

    q: Linear
    k: Linear
    v: Linear
    o: Linear
    num_heads: int
    num_kv_heads: int
    rope: Rope
    norm_eps: float = 1e-6
    q_norm: Array | None = None
    k_norm: Array | None = None
    sinks: Array | None = None
    clip: float | None = None
    sliding_window: int | None = None

    def __call__(self, x: Array, cache: KVCache, layer: int) -> Array:
        """x : [B, S, H] float64, normalised.   Returns [B, S, H] float64."""
        start = cache.layer_length(layer)
        queries = self.rope.apply(self._heads(self.q(x), self.num_heads, self.q_norm), start)
        keys = self.rope.apply(self._heads(self.k(x), self.num_kv_heads, self.k_norm), start)
        values = self._heads(self.v(x), self.num_kv_heads, None)
        keys, values = cache.append(layer, keys, values)
        mask = attention_mask(x.shape[1], keys.shape[2], self.sliding_window)
        scale = queries.shape[-1] ** -0.5
        return self.o(_joined(attend(queries, keys, values, mask, scale, self.sinks)))

    def _heads(self, x: Array, num_heads: int, norm: Array | None) -> Array:
        """[B, S, out] -> [B, num_heads, S, head_dim]."""
        head_dim = x.shape[-1] // num_heads
        wide = norm is not None and len(norm) != head_dim
        if norm is not None and wide:
            x = rms_norm(x, norm, self.norm_eps)
        x = split_heads(x, num_heads)
        if norm is not None and not wide:
            x = rms_norm(x, norm, self.norm_eps)
        return x if self.clip is None else np.clip(x, -self.clip, self.clip)


@dataclass(frozen=True)
class LatentAttention:
    """DeepSeek's attention over compressed keys and values.

    q_down, q_norm, q_up : the query through a low rank; q_down and q_norm None: q_up alone.
    kv_down : to kv_rank + rope_dim;  kv_norm : [kv_rank];
    kv_up : to num_heads * (nope_dim + value_dim);  o : back to H.
    nope_dim, rope_dim : parts of a head without and with positions.
    scale : what scores are multiplied by.
    Source: DeepSeek-V2, arXiv:2405.04434, section 2.1.
    """

    q_down: Linear | None
    q_norm: Array | None
    q_up: Linear
    kv_down: Linear
    kv_norm: Array
    kv_up: Linear
    o: Linear
    num_heads: int
    nope_dim: int
    rope_dim: int
    rope: Rope
    scale: float
    norm_eps: float = 1e-6

    def __call__(self, x: Array, cache: KVCache, layer: int) -> Array:
        """x : [B, S, H] float64, normalised.   Returns [B, S, H] float64."""
        start = cache.layer_length(layer)
        queries = self._queries(x, start)
        keys, values = cache.append(layer, *self._keys_and_values(x, start))
        mask = attention_mask(x.shape[1], keys.shape[2], None)
        return self.o(_joined(attend(queries, keys, values, mask, self.scale)))

    def _queries(self, x: Array, start: int) -> Array:
        if self.q_down is not None and self.q_norm is not None:
            x = rms_norm(self.q_down(x), self.q_norm, self.norm_eps)
        queries = split_heads(self.q_up(x), self.num_heads)
        nope, turning = np.split(queries, [self.nope_dim], axis=-1)
        return np.concatenate([nope, self.rope.apply(turning, start)], axis=-1)

    def _keys_and_values(self, x: Array, start: int) -> tuple[Array, Array]:
        latent, turning = np.split(self.kv_down(x), [len(self.kv_norm)], axis=-1)
        expanded = self.kv_up(rms_norm(latent, self.kv_norm, self.norm_eps))
        nope, values = np.split(split_heads(expanded, self.num_heads), [self.nope_dim], axis=-1)
        turned = self.rope.apply(turning[:, None], start)  # one key part, shared by all heads
        shared = np.broadcast_to(turned, (*nope.shape[:-1], self.rope_dim))
        return np.concatenate([nope, shared], axis=-1), values


def attend(
    queries: Array,
    keys: Array,
    values: Array,
    mask: NDArray[np.bool_],
    scale: float,
    sinks: Array | None = None,
) -> Array:
    """softmax(q k^T * scale) v, a key-value head for each group of query heads.

    queries : [B, num_heads, S, D].   keys : [B, num_kv_heads, N, D].   values : [.., N, D'].
    mask : [S, N], True where a query may look.   Returns [B, num_heads, S, D'].
    """
    batch, num_heads, length, head_dim = queries.shape
    grouped = queries.reshape(batch, keys.shape[1], -1, length, head_dim)
    scores = grouped @ keys[:, :, None].swapaxes(-1, -2) * scale
    scores = np.where(mask, scores, -np.inf)
    if sinks is None:
        probabilities = softmax(scores)
    else:
        extra = np.asarray(sinks, np.float64).reshape(1, keys.shape[1], -1, 1, 1)
        extra = np.broadcast_to(extra, (*scores.shape[:-1], 1))
        probabilities = softmax(np.concatenate([scores, extra], axis=-1))[..., :-1]
    mixed = probabilities @ values[:, :, None]
    return np.asarray(mixed).reshape(batch, num_heads, length, -1)


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


def split_heads(x: Array, num_heads: int) -> Array:
    """[B, S, num_heads * D] -> [B, num_heads, S, D]."""
    return x.reshape(*x.shape[:2], num_heads, -1).swapaxes(1, 2)


def _joined(x: Array) -> Array:
    """[B, num_heads, S, D] -> [B, S, num_heads * D]."""
    return x.swapaxes(1, 2).reshape(x.shape[0], x.shape[2], -1)
