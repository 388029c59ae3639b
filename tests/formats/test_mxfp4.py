"""MXFP4 against transformers' numbers, and against ml_dtypes for every code under every scale."""

import ml_dtypes
import numpy as np
import pytest

from colibri_lab.errors import ShapeError
from colibri_lab.formats.mxfp4 import decode
from tests.golden.reading import HERE

CODES = np.arange(16, dtype=np.uint8)


def test_as_transformers_decodes_it():
    """transformers gives experts transposed: [E, G * 32, rows]."""
    with np.load(HERE / "mxfp4.npz") as golden:
        found = decode(golden["blocks"], golden["scales"])
        wanted = golden["numbers"].swapaxes(1, 2)
        assert sorted(golden["scales"].ravel()) == list(range(255))
    assert found.dtype == np.float32
    assert np.array_equal(found, wanted)
    assert np.array_equal(np.signbit(found), np.signbit(wanted))


def every_code(scales):
    """[len(scales), 32]: the 16 codes in turn, twice."""
    low, high = np.tile(CODES, 2).reshape(16, 2).T
    return decode(np.tile(low | high << 4, (len(scales), 1, 1)), scales[:, None])


def test_every_code_under_every_scale():
    scales = np.arange(256, dtype=np.uint8)
    values = np.tile(CODES, 2).view(ml_dtypes.float4_e2m1fn).astype(np.float64)
    with np.errstate(over="ignore"):  # 6 * 2^127 is infinite in float32, in both
        factors = scales.view(ml_dtypes.float8_e8m0fnu).astype(np.float64)
        wanted = (factors[:, None] * values).astype(np.float32)
    found = every_code(scales)
    assert np.array_equal(found, wanted, equal_nan=True)
    assert np.isnan(found[255]).all()


def test_by_hand():
    blocks = np.zeros((1, 16), np.uint8)
    blocks[0, 0], blocks[0, 15] = 0x21, 0xF0  # 0.5 and 1, then 0 and -6, times 4
    numbers = decode(blocks, np.array([129], np.uint8))
    assert numbers[:2].tolist() == [2.0, 4.0]
    assert numbers[-2:].tolist() == [0.0, -24.0]
    assert not numbers[2:-2].any()


@pytest.mark.parametrize("shape", [(2, 3, 16), (3, 2, 15), (2, 16), (16,)])
def test_blocks_and_scales_that_do_not_belong_together(shape):
    with pytest.raises(ShapeError, match="do not belong together"):
        decode(np.zeros(shape, np.uint8), np.zeros((3, 2), np.uint8))
