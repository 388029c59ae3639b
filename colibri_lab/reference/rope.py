"""Rotary position embedding, plain or stretched by YaRN."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .weights import Array


@dataclass(frozen=True)
class Rope:
    """How positions turn queries and keys.

    inv_freq : [head_dim / 2] float64, radians a position.
    interleaved : pairs are (2i, 2i+1), as DeepSeek stores them, not (i, i + head_dim/2).
    magnitude : what cos and sin are multiplied by.
    Source: RoFormer, arXiv:2104.09864.
    """

    inv_freq: NDArray[np.float64]
    interleaved: bool = False
    magnitude: float = 1.0

    def apply(self, x: Array, start: int) -> Array:
        """Turn x [..., S, head_dim], whose first position is `start`.

        Interleaved pairs come out as halves: queries and keys alike, so their products agree.
        """
        positions = np.arange(start, start + x.shape[-2])
        angles = np.outer(positions, self.inv_freq)
        cos, sin = self.magnitude * np.cos(angles), self.magnitude * np.sin(angles)
        half = x.shape[-1] // 2
        first, second = (
            (x[..., 0::2], x[..., 1::2]) if self.interleaved else (x[..., :half], x[..., half:])
        )
        turned = (first * cos - second * sin, second * cos + first * sin)
        return np.concatenate(turned, axis=-1)


def plain_rope(head_dim: int, theta: float, interleaved: bool = False) -> Rope:
    """inv_freq[i] = theta^(-2i / head_dim)."""
    return Rope(theta ** -(np.arange(0, head_dim, 2) / head_dim), interleaved)


@dataclass(frozen=True)
class YarnStretch:
    """YaRN's parameters.   Source: arXiv:2309.00071, section 3.

    factor : how many times longer sequences become.   original_length : positions in training.
    beta_fast, beta_slow : turns over the original length above which a frequency stays as it is,
        and below which it is divided by `factor`.
    truncate : round the two borders outward to whole dimensions.
    """

    factor: float
    original_length: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True


def yarn_rope(
    head_dim: int,
    theta: float,
    stretch: YarnStretch,
    *,
    magnitude: float,
    interleaved: bool = False,
) -> Rope:
    """Low frequencies divided by the factor, high ones left, a ramp between."""
    plain = plain_rope(head_dim, theta).inv_freq
    low = _dimension(stretch.beta_fast, head_dim, theta, stretch.original_length)
    high = _dimension(stretch.beta_slow, head_dim, theta, stretch.original_length)
    if stretch.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, head_dim - 1)
    if low == high:
        high += 0.001  # a step in place of a ramp
    ramp = np.clip((np.arange(head_dim // 2) - low) / (high - low), 0.0, 1.0)
    return Rope(plain * (1 - ramp) + plain / stretch.factor * ramp, interleaved, magnitude)


def yarn_magnitude(factor: float, weight: float = 1.0) -> float:
    """0.1 * weight * ln(factor) + 1: how much attention is sharpened for longer sequences."""
    return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0


def _dimension(turns: float, head_dim: int, theta: float, length: int) -> float:
    """The (fractional) dimension pair that turns so many times over `length` positions."""
    return head_dim * math.log(length / (turns * 2 * math.pi)) / (2 * math.log(theta))
