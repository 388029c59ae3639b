"""MXFP4: four-bit floats in blocks of 32 that share a scale, as gpt-oss stores its experts.

Source: Open Compute Project, Microscaling Formats (MX) Specification, version 1.0: E2M1 and E8M0.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..errors import ShapeError

BLOCK_SIZE = 32
BLOCK_BYTES = BLOCK_SIZE // 2
# Sign, two bits of exponent, one of mantissa.
MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
VALUES = np.array([*MAGNITUDES, *(-value for value in MAGNITUDES)], np.float32)
SCALE_BIAS = 127
NOT_A_NUMBER = 255


def decode(blocks: NDArray[np.uint8], scales: NDArray[np.uint8]) -> NDArray[np.float32]:
    """The numbers that blocks and scales stand for, exactly, but for overflow to infinity.

    blocks : [..., G, 16] uint8, two values a byte, the first in the low four bits.
    scales : [..., G] uint8, 2^(scale - 127) for each block; 255 is NaN.
    Returns [..., G * 32] float32.
    """
    if blocks.shape != (*scales.shape, BLOCK_BYTES):
        raise ShapeError(
            "MXFP4 blocks and scales do not belong together",
            expected=f"blocks {[*scales.shape, BLOCK_BYTES]}",
            found=list(blocks.shape),
        )
    codes = np.stack([blocks & 0x0F, blocks >> 4], axis=-1)
    exponents = scales.astype(np.int32) - SCALE_BIAS
    with np.errstate(over="ignore"):
        values = np.ldexp(VALUES[codes], exponents[..., None, None])
    values[scales == NOT_A_NUMBER] = np.nan
    return values.reshape(*scales.shape[:-1], -1)
