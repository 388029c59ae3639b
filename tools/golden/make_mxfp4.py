"""Make the golden file of MXFP4 with transformers: random blocks and scales, and their numbers.

    python -m tools.golden.make_mxfp4

Run it from the root of the repository in the training environment; see README.md beside it.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from transformers.integrations.mxfp4 import _convert_moe_packed_tensors

from tools.golden.cases import SCHEMA_VERSION, versions

FILE = Path("tests/golden/mxfp4.npz")
# Experts, rows, groups: as many scales as there are scale bytes with a meaning. The last, 255, is
# NaN by the specification and 2^128 here.
SHAPE = (3, 17, 5)


def main() -> None:
    rng = np.random.default_rng(100)
    blocks = rng.integers(0, 256, (*SHAPE, 16), np.uint8)
    scales = rng.permutation(255).astype(np.uint8).reshape(SHAPE)
    tensors = torch.from_numpy(blocks), torch.from_numpy(scales)
    numbers = _convert_moe_packed_tensors(*tensors, dtype=torch.float32)
    metadata = {
        "schema_version": SCHEMA_VERSION,
        "command": "python -m tools.golden.make_mxfp4",
        "function": "transformers.integrations.mxfp4._convert_moe_packed_tensors",
        **versions(),
    }
    np.savez_compressed(
        FILE,
        blocks=blocks,
        scales=scales,
        numbers=numbers.numpy(),
        metadata=np.array(json.dumps(metadata, indent=1)),
    )
    print(f"{FILE}: {numbers.numel():,} numbers, {FILE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
