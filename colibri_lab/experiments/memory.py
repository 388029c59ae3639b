"""How much memory a sweep takes, worked out beforehand.

Counted are the arrays: what stays from the first cell to the last, and the largest of what comes
and goes. Not counted are the interpreter with its libraries, and the mapped checkpoint, whose pages
the system drops where it needs the room.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..config import ModelConfig
from ..engine.buffers import memory_terms as engine_terms
from ..profiling.bandwidth import LARGEST_BYTES, MATRIX
from .backends import BACKENDS
from .grid import Cell
from .inputs import Needs, Reading, held_calls
from .limits import working_set
from .perplexity import call_size

if TYPE_CHECKING:
    from .session import Request

DOUBLE = 8
FLOAT = 4


def memory_terms(
    request: Request, cells: Sequence[Cell], inputs_bytes: int, reading: Reading | None
) -> dict[str, int]:
    """Bytes of what a sweep of these cells holds when it holds most, term by term.

    reading : what is to be captured for the inputs; None where they are stored already.
    """
    moments = dict(_moments(request, cells, reading))
    largest = max(moments, key=lambda name: moments[name])
    return {
        "weights of the reference": held_bytes(request.decoder.weights),
        "inputs": inputs_bytes,
        "texts": request.corpus.num_bytes if request.corpus else 0,
        "routing of the cells": _routing_bytes(request.config, cells, request.needs),
        largest: moments[largest],
    }


def held_bytes(weights: Any) -> int:
    """Bytes of the arrays of a tree of dataclasses and lists, each counted once.

    A lazy sequence holds nothing: it reads its items when they are asked for.
    """
    found = {array.__array_interface__["data"][0]: array.nbytes for array in _arrays(weights)}
    return sum(found.values())


def _arrays(tree: Any) -> Iterator[np.ndarray[Any, Any]]:
    if isinstance(tree, np.ndarray):
        yield tree
    elif isinstance(tree, list | tuple):
        for item in tree:
            yield from _arrays(item)
    elif is_dataclass(tree):
        for field in fields(tree):
            yield from _arrays(getattr(tree, field.name))


def _moments(
    request: Request, cells: Sequence[Cell], reading: Reading | None
) -> Iterator[tuple[str, int]]:
    """What comes and goes, by when."""
    config, table = request.config, request.config.vocab_size * request.config.hidden_size
    # A tensor is read, widened to float32, and then to what the weights are held in.
    yield "reading the last tensor", 2 * FLOAT * table
    if reading is not None and request.inputs == "text":
        length = reading.context + reading.length
        states = DOUBLE * config.num_moe_layers * length * config.hidden_size
        top_k = config.moe.top_k
        yield "capturing a sequence", states + forward_bytes(config, 1, length, top_k)
    for cell in cells:
        yield from _cell_moments(request, cell)


def _cell_moments(request: Request, cell: Cell) -> Iterator[tuple[str, int]]:
    config, needs = request.config, request.needs
    layers, wide = config.num_moe_layers, cell.num_tokens * config.hidden_size
    calls = held_calls(needs.num_calls, FLOAT * layers * wide) * FLOAT * layers * wide
    moe = moe_bytes(config, cell.num_tokens, cell.top_k)
    loads = (DOUBLE + 1) * needs.num_calls * layers * config.moe.num_experts
    # The layers' outputs one by one, then stacked or compared, beside the backend's own.
    reference = DOUBLE * layers * wide + max(DOUBLE * max(layers, 2) * wide, moe)
    yield f"routing of {cell.label}", calls + loads + moe
    yield f"capacity error of {cell.label}", calls + 4 * DOUBLE * wide + moe
    yield f"running {cell.label}", calls + _backend_bytes(config, cell) + reference
    yield f"limits of {cell.label}", calls + _limits_bytes(request, cell)
    size = call_size(request.decoder, request.corpus) if request.corpus else None
    if size is not None:
        logits = DOUBLE * size.sequences * size.tokens * config.vocab_size
        forward = forward_bytes(config, size.sequences, size.tokens, cell.top_k)
        yield f"perplexity of {cell.label}", calls + max(forward, 3 * logits)


def forward_bytes(config: ModelConfig, batch_size: int, seq_len: int, top_k: int) -> int:
    """What a pass of the reference decoder holds at most: states, keys and values, and one of
    attention, experts and logits."""
    tokens, width = batch_size * seq_len, config.num_heads * config.head_dim
    cache = 2 * config.num_layers * tokens * config.num_kv_heads * config.head_dim
    attention = 4 * tokens * width + 3 * batch_size * config.num_heads * seq_len**2
    logits = tokens * config.vocab_size
    steps = DOUBLE * max(attention, logits), moe_bytes(config, tokens, top_k)
    return DOUBLE * (4 * tokens * config.hidden_size + cache) + max(steps)


def moe_bytes(config: ModelConfig, num_tokens: int, top_k: int) -> int:
    """What the reference's MoE layer holds at most, the states that it is given apart."""
    moe, assignments = config.moe, num_tokens * top_k
    rows = min(num_tokens, 2 * -(-assignments // moe.num_experts))  # of an expert that is popular
    expert = rows * (2 * moe.hidden_size + 6 * moe.intermediate_size)
    outputs, combined = assignments * moe.hidden_size, num_tokens * moe.hidden_size
    router = 4 * num_tokens * moe.num_experts
    matrix = moe.intermediate_size * moe.hidden_size  # widened where it is held as float32
    return DOUBLE * (router + outputs + max(expert + matrix, outputs + combined))


def _backend_bytes(config: ModelConfig, cell: Cell) -> int:
    """What the backend itself holds while the cell runs."""
    if cell.expert_cache_slots is None:
        return 2 * DOUBLE * config.num_moe_layers * cell.num_tokens * config.hidden_size
    terms = engine_terms(
        config.moe,
        config.num_moe_layers,
        cell.expert_cache_slots,
        cell.num_tokens,
        cell.stream_count,
    )
    reading = (FLOAT + FLOAT / 3) * config.moe.expert_params  # an expert, and a part as stored
    return sum(terms.values()) + int(cell.stream_count * reading)


def _limits_bytes(request: Request, cell: Cell) -> int:
    """Of the buffer that bandwidth is measured over, or the matrices for arithmetic."""
    moe, held = request.config.moe, request.decoder.weights.embedding.itemsize
    experts = min(moe.num_experts, cell.num_tokens * cell.top_k) * request.config.num_moe_layers
    read = experts * moe.expert_params * (BACKENDS[cell.backend].weight_bytes or held)
    return max(min(working_set(read), LARGEST_BYTES), 2 * FLOAT * MATRIX**2)


def _routing_bytes(config: ModelConfig, cells: Sequence[Cell], needs: Needs) -> int:
    """Of every batch and policy: active and computed experts, [calls, L] each."""
    kinds = {(cell.batch_size, cell.seq_len, cell.top_k, cell.capacity) for cell in cells}
    return 2 * DOUBLE * len(kinds) * needs.num_calls * config.num_moe_layers
