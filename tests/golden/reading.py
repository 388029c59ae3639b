"""The golden files, and the reference run on their prompts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colibri_lab.reference import Decoder

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SAMPLE = "tiny-moe"
Array = NDArray[Any]


@dataclass(frozen=True)
class Case:
    """One prompt, or batch of prompts of one length, and what transformers made of it.

    token_ids : [B, S].   steps : sizes of the chunks it was fed in; several: with a cache.
    positions : [P], where these are stored: logits [B, P, V], hidden_states [B, P, H] after the
        final norm, moe_inputs [L, B, P, H] that each router was given.
    topk_ids, topk_weights : [L, B, S, K], everywhere.
    """

    name: str
    steps: tuple[int, ...]
    token_ids: Array
    positions: Array
    logits: Array
    hidden_states: Array
    moe_inputs: Array
    topk_ids: Array
    topk_weights: Array


@dataclass(frozen=True)
class Golden:
    """A golden file and the folder of the checkpoint that it was made from."""

    checkpoint: Path
    metadata: dict[str, Any]
    cases: dict[str, Case]


@dataclass(frozen=True)
class Differences:
    """Worst absolute differences, and how many of the topk_ids differ."""

    logits: float
    moe_inputs: float
    topk_weights: float
    topk_ids: int


def golden_file(name: str) -> Path:
    """Where the golden file of a configuration, or of the sample model, is."""
    return HERE / f"{SAMPLE}.npz" if name == SAMPLE else HERE / name / "golden.npz"


def checkpoint_folder(name: str) -> Path:
    """Where the checkpoint of a configuration, or the sample model, is."""
    return ROOT / "data" / SAMPLE if name == SAMPLE else HERE / name


def read_golden(name: str) -> Golden:
    """The golden file of a configuration (``mixtral-base``, ...) or of the sample model."""
    with np.load(golden_file(name)) as arrays:
        metadata = json.loads(str(arrays["metadata"]))
        cases = {facts["name"]: _case(arrays, facts) for facts in metadata["cases"]}
    return Golden(checkpoint_folder(name), metadata, cases)


def _case(arrays: Any, facts: dict[str, Any]) -> Case:
    prefix = f"{facts['name']}/"
    own = {name.removeprefix(prefix): arrays[name] for name in arrays if name.startswith(prefix)}
    return Case(name=facts["name"], steps=tuple(facts["steps"]), **own)


def changed_files(golden: Golden) -> list[str]:
    """The checkpoint's files that are not, byte for byte, those the golden file was made from."""
    return [
        name
        for name, digest in golden.metadata["sha256"].items()
        if _sha256(golden.checkpoint / name) != digest
    ]


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else "absent"


def compare(model: Decoder, case: Case, steps: Sequence[int]) -> Differences:
    """Feed the case's tokens to the reference in chunks of these sizes; compare where stored."""
    logits, moe_inputs, topk_ids, topk_weights = _run(model, case.token_ids, steps)
    at = case.positions
    # Weights belong together by expert, so that one swapped pair counts as ids, not as weights too.
    by_expert = [
        _by_expert(ids, weights, model.config.moe.num_experts)
        for ids, weights in ((topk_ids, topk_weights), (case.topk_ids, case.topk_weights))
    ]
    return Differences(
        logits=_worst(logits[:, at], case.logits),
        moe_inputs=_worst(moe_inputs[:, :, at], case.moe_inputs),
        topk_weights=_worst(*by_expert),
        topk_ids=int(np.count_nonzero(topk_ids != case.topk_ids)),
    )


def _run(model: Decoder, token_ids: Array, steps: Sequence[int]) -> tuple[Array, ...]:
    """logits [B, S, V], moe_inputs [L, B, S, H], topk_ids and topk_weights [L, B, S, K]."""
    chunks, cache, start = [], None, 0
    for size in steps:
        ids = token_ids[:, start : start + size]
        output = model.forward(ids, cache=cache, trace=True)
        assert output.trace is not None
        inputs = np.stack(output.moe_inputs).reshape(-1, *ids.shape, model.config.hidden_size)
        # The rows of a trace are layer by layer, each over requests, positions and slots in turn.
        shape = (model.config.num_moe_layers, *ids.shape, output.trace.top_k)
        expert, weight = (
            getattr(output.trace, column).reshape(shape) for column in ("expert", "weight")
        )
        chunks.append((output.logits, inputs, expert, weight))
        cache, start = output.cache, start + size
    return tuple(np.concatenate(parts, axis=-2) for parts in zip(*chunks, strict=True))


def _by_expert(topk_ids: Array, topk_weights: Array, num_experts: int) -> Array:
    """Weights [..., E], 0 where an expert was not chosen."""
    dense = np.zeros((*topk_ids.shape[:-1], num_experts))
    np.put_along_axis(dense, topk_ids.astype(np.int64), topk_weights, axis=-1)
    return dense


def _worst(ours: Array, theirs: Array) -> float:
    if ours.shape != theirs.shape:
        raise AssertionError(f"shapes differ: {ours.shape} against {theirs.shape}")
    return float(np.abs(ours.astype(np.float64) - theirs).max())
