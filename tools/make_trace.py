"""Write a long made-up trace part by part, to see that replays do not need it in memory.

Example: python tools/make_trace.py long.parquet --rows 100000000
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from colibri_lab.traces.parquet import HEADER, KEY, PHASES, VERSION

LAYERS, EXPERTS, TOP_K, SKEW = 24, 128, 4, 0.8
TOKENS = 10_000  # a part
SIZES = {"num_layers": LAYERS, "num_experts": EXPERTS, "top_k": TOP_K}
TEXTS = {"model": "synthetic", "source": "synthetic: tools/make_trace.py", "licence": "none needed"}


def part(first_token: int, num_tokens: int, rng: np.random.Generator) -> Any:
    """Decode tokens of one request, each with TOP_K distinct experts a layer."""
    shape = (num_tokens, LAYERS, TOP_K)
    step, layer, slot = np.indices(shape, dtype=np.int32).reshape(3, -1)
    # The first choice follows a Zipf law; the others lie at odd steps from it, hence are distinct.
    shares = np.arange(1, EXPERTS + 1) ** -SKEW
    first = rng.choice(EXPERTS, shape[:2], p=shares / shares.sum())
    stride = 2 * rng.integers(0, 4, shape[:2]) + 1
    expert = (first[..., None] + stride[..., None] * np.arange(TOP_K)) % EXPERTS
    decode = pa.array(np.ones(step.size, np.int8))
    return pa.table(
        {
            "phase": pa.DictionaryArray.from_arrays(decode, list(PHASES)),
            "request": np.zeros(step.size, np.int32),
            "step": step + np.int32(first_token),
            "layer": layer,
            "slot": slot,
            "expert": expert.astype(np.int32).ravel(),
            "weight": np.full(step.size, 1 / TOP_K, np.float32),
        }
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000)
    options = parser.parse_args()
    header = {**SIZES, **TEXTS, "expert_bytes": [1 << 20] * LAYERS}
    assert set(header) == set(HEADER)
    metadata = {KEY: json.dumps({"version": VERSION, **header}).encode()}
    schema = part(0, 1, np.random.default_rng(0)).schema.with_metadata(metadata)
    rng = np.random.default_rng(0)
    num_tokens = -(-options.rows // (LAYERS * TOP_K))
    with pq.ParquetWriter(options.out, schema, compression="zstd") as writer:
        for first in range(0, num_tokens, TOKENS):
            table = part(first, min(TOKENS, num_tokens - first), rng)
            writer.write_table(table.replace_schema_metadata(metadata))
    print(f"{options.out}: {num_tokens * LAYERS * TOP_K:,} assignments")


if __name__ == "__main__":
    main()
