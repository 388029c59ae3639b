"""Loading a model: the front door."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike

from ..reference.decoder import Decoder
from ..reference.weights import DecoderWeights, ExpertWeights, LayerWeights
from .checkpoint import Checkpoint, open_checkpoint
from .containers import ExpertSource, experts_for
from .lazy import LazySequence


def load_model(
    path: str | Path,
    dtype: DTypeLike = np.float64,
    *,
    resident: bool = True,
    resident_experts: bool = True,
    experts: str | Path | None = None,
) -> Decoder:
    """Read a checkpoint folder, ready to run.

    dtype : how weights are held; sums are in float64 whatever it is.
    resident : all weights in memory; False: each layer and expert is read when it is used, for
        models that are larger than the memory.
    resident_experts : False: the layers in memory, but each expert read when it is used.
    experts : a ``.colibri`` or ``.cbi`` file to take the experts from; the rest, routers included,
        comes from the checkpoint. Its experts are read when they are used.
    Raises ModelError or FormatError, naming file and tensor.
    """
    checkpoint = open_checkpoint(path)
    source: ExpertSource | None = None
    try:
        layers = range(checkpoint.config.num_moe_layers)
        own_experts = resident_experts and experts is None
        weights = checkpoint.weights(dtype, resident, own_experts)
        sizes = tuple(checkpoint.expert_bytes(layer) for layer in layers)
        if experts is not None:
            source = experts_for(checkpoint, experts)
            sizes = tuple(source.expert_bytes(layer) for layer in layers)
            weights = _with_experts(checkpoint, weights, source, resident)
        return Decoder(
            config=checkpoint.config,
            weights=weights,
            tokenizer=checkpoint.tokenizer,
            expert_bytes=sizes,
            fingerprint=checkpoint.fingerprint,
            path=str(path),
        )
    except BaseException:
        checkpoint.close()
        if source is not None:
            source.close()
        raise


def _with_experts(
    checkpoint: Checkpoint, weights: DecoderWeights, source: ExpertSource, resident: bool
) -> DecoderWeights:
    """The same weights with the experts of every MoE layer read from `source`."""
    moe_layers = checkpoint.config.moe_layers

    def layer(index: int) -> LayerWeights:
        whole = weights.layers[index]
        if whole.moe is None:
            return whole
        experts: Sequence[ExpertWeights] = LazySequence(
            source.sizes.num_experts, _reader(source, moe_layers.index(index))
        )
        return replace(whole, moe=replace(whole.moe, experts=experts))

    layers: Sequence[LayerWeights] = LazySequence(len(weights.layers), layer)
    return replace(weights, layers=list(layers) if resident else layers)


def _reader(source: ExpertSource, layer: int) -> Callable[[int], ExpertWeights]:
    return lambda expert: source.expert(layer, expert)
