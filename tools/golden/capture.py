"""Run a transformers MoE model and record what a golden file holds; knows no family."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import DynamicCache

from tools.golden.ranking import best_first, ranking

Array = NDArray[Any]


@dataclass
class Recording:
    """What hooks saw in one forward call: a list entry a MoE layer, all over its T tokens."""

    moe_inputs: list[torch.Tensor] = field(default_factory=list)
    choice: list[torch.Tensor] = field(default_factory=list)
    groups: list[torch.Tensor] = field(default_factory=list)
    topk_weights: list[torch.Tensor] = field(default_factory=list)
    topk_ids: list[torch.Tensor] = field(default_factory=list)
    hidden_states: list[torch.Tensor] = field(default_factory=list)

    def on_router(self, module: Any, inputs: Any, outputs: Any) -> None:
        """A router of transformers 5 returns logits, weights and ids, each [T, ...]."""
        logits, weights, ids = outputs
        self.moe_inputs.append(inputs[0].reshape(len(ids), -1))
        choice, groups = ranking(module, logits)
        ids, weights = best_first(choice, ids, weights)
        self.choice.append(choice)
        self.groups.append(groups)
        self.topk_weights.append(weights)
        self.topk_ids.append(ids)

    def on_final_norm(self, _module: Any, _inputs: Any, outputs: Any) -> None:
        self.hidden_states.append(outputs)


@contextmanager
def _hooks(model: Any) -> Iterator[Recording]:
    recording = Recording()
    routers = [m for m in model.modules() if type(m).__name__.lower().endswith("topkrouter")]
    handles = [router.register_forward_hook(recording.on_router) for router in routers]
    handles.append(model.model.norm.register_forward_hook(recording.on_final_norm))
    try:
        yield recording
    finally:
        for handle in handles:
            handle.remove()


def run(model: Any, token_ids: Array, steps: Sequence[int]) -> dict[str, Array]:
    """Feed token_ids [B, S] in chunks of the sizes `steps`, with a cache where there are several.

    Returns logits [B, S, V], hidden_states [B, S, H] (after the final norm), and with a leading
    layer axis, of the MoE layers, moe_inputs [L, B, S, H], topk_ids and topk_weights [L, B, S, K],
    and what experts and groups of them were ranked by: choice [L, B, S, E], groups [L, B, S, G].
    """
    if sum(steps) != token_ids.shape[1]:
        raise ValueError(f"steps {list(steps)} do not add up to {token_ids.shape[1]} tokens")
    cache = DynamicCache(config=model.config) if len(steps) > 1 else None
    ends = np.cumsum(steps)
    chunks = [
        _run_chunk(model, torch.from_numpy(token_ids[:, end - size : end]), cache)
        for size, end in zip(steps, ends, strict=True)
    ]
    # The sequence is the last axis but one everywhere.
    return {name: np.concatenate([chunk[name] for chunk in chunks], axis=-2) for name in chunks[0]}


def _run_chunk(model: Any, token_ids: torch.Tensor, cache: Any) -> dict[str, Array]:
    with torch.no_grad(), _hooks(model) as recording:
        logits = model(token_ids, cache=cache, use_cache=cache is not None).logits

    def by_layer(tensors: list[torch.Tensor]) -> Array:
        stacked = torch.stack(tensors)
        return stacked.reshape(len(tensors), *token_ids.shape, stacked.shape[-1]).numpy()

    return {
        "logits": logits.numpy(),
        "hidden_states": recording.hidden_states[0].numpy(),
        "moe_inputs": by_layer(recording.moe_inputs),
        "choice": by_layer(recording.choice),
        "groups": by_layer(recording.groups),
        "topk_ids": by_layer(recording.topk_ids),
        "topk_weights": by_layer(recording.topk_weights),
    }
