"""What int8 costs each expert, on the hidden states that the model really gives it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..formats.quantize import dequantize_expert, quantize_expert
from ..reference.decoder import Decoder
from ..reference.experts import swiglu
from ..reference.metrics import relative_error
from ..reference.weights import Array, ExpertWeights


@dataclass(frozen=True)
class QuantizationErrors:
    """Relative error of each expert's output, int8 against its float weights.

    by_tensor, by_row : [L, E] float64, ||int8 - float|| / ||float|| over the expert's tokens; nan
        where an expert saw none.
    tokens : [L, E] int64, how many tokens of the text the router gave it.
    """

    by_tensor: NDArray[np.float64]
    by_row: NDArray[np.float64]
    tokens: NDArray[np.int64]


def quantization_errors(model: Decoder, token_ids: Sequence[int]) -> QuantizationErrors:
    """Read a text with the model and hold every expert's int8 output against its own.

    token_ids : [S], the text.
    """
    output = model.forward(token_ids, trace=True)
    shape = (model.config.num_moe_layers, model.config.moe.num_experts)
    by_tensor, by_row = np.full(shape, np.nan), np.full(shape, np.nan)
    tokens = np.zeros(shape, np.int64)
    for layer, (inputs, done) in enumerate(zip(output.moe_inputs, output.moe_outputs, strict=True)):
        weights = model.moe_weights(layer)
        for expert in range(shape[1]):
            taken = (done.routing.topk_ids == expert).any(axis=1)
            tokens[layer, expert] = taken.sum()
            if taken.any():
                expert_weights = weights.experts[expert]
                by_tensor[layer, expert] = _error(inputs[taken], expert_weights, by_row=False)
                by_row[layer, expert] = _error(inputs[taken], expert_weights, by_row=True)
    return QuantizationErrors(by_tensor, by_row, tokens)


def _error(hidden_states: Array, expert: ExpertWeights, by_row: bool) -> float:
    quantized = dequantize_expert(quantize_expert(expert, by_row))
    kept = ExpertWeights(quantized.gate, quantized.up, quantized.down, expert.bias, expert.clamp)
    return relative_error(swiglu(hidden_states, kept), swiglu(hidden_states, expert))
