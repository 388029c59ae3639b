"""Run a transformers MoE model and record what a golden file holds; knows no family."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoConfig, AutoModelForCausalLM, DynamicCache

Array = NDArray[Any]


@dataclass
class Recording:
    """What hooks saw in one forward call: a list entry a MoE layer, all over its T tokens."""

    moe_inputs: list[torch.Tensor] = field(default_factory=list)
    router_logits: list[torch.Tensor] = field(default_factory=list)
    topk_weights: list[torch.Tensor] = field(default_factory=list)
    topk_ids: list[torch.Tensor] = field(default_factory=list)
    hidden_states: list[torch.Tensor] = field(default_factory=list)

    def on_router(self, _module: Any, inputs: Any, outputs: Any) -> None:
        """A router of transformers 5 returns logits, weights and ids, each [T, ...]."""
        logits, weights, ids = outputs
        self.moe_inputs.append(inputs[0].reshape(len(ids), -1))
        self.router_logits.append(logits)
        self.topk_weights.append(weights)
        self.topk_ids.append(ids)

    def on_final_norm(self, _module: Any, _inputs: Any, outputs: Any) -> None:
        self.hidden_states.append(outputs)


def load(folder: Path, **config_changes: Any) -> Any:
    """The model in float32 from the stored values, with the plainest implementations.

    config_changes : fields of config.json to override, to see what difference they make.
    Raises SystemExit where tensors of the checkpoint are missing or left over.
    """
    config = AutoConfig.from_pretrained(folder)
    for name, value in config_changes.items():
        setattr(config, name, value)
    model, info = AutoModelForCausalLM.from_pretrained(
        folder,
        config=config,
        dtype=torch.float32,
        attn_implementation="eager",
        experts_implementation="eager",
        output_loading_info=True,
    )
    problems = {kind: sorted(names) for kind, names in info.items() if names}
    if problems:
        raise SystemExit(f"{folder} does not load cleanly: {problems}")
    return model.eval()


@contextmanager
def _hooks(model: Any) -> Iterator[Recording]:
    recording = Recording()
    routers = [m for m in model.modules() if type(m).__name__.endswith("TopKRouter")]
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
    layer axis moe_inputs [L, B, S, H], router_logits [L, B, S, E], topk_ids and topk_weights
    [L, B, S, K].
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
        return torch.stack(tensors).reshape(len(tensors), *token_ids.shape, -1).numpy()

    return {
        "logits": logits.numpy(),
        "hidden_states": recording.hidden_states[0].numpy(),
        "moe_inputs": by_layer(recording.moe_inputs),
        "router_logits": by_layer(recording.router_logits),
        "topk_ids": by_layer(recording.topk_ids),
        "topk_weights": by_layer(recording.topk_weights),
    }


def router_gaps(router_logits: Array, top_k: int) -> tuple[float, float]:
    """The smallest distance of the K-th from the next probability, and of two within the K.

    Either is infinite where there is no such pair. Above the rounding of float32, both together
    make topk_ids, order included, the same in float32 and float64.
    """
    logits = router_logits.astype(np.float64)
    probabilities = np.exp(logits - logits.max(axis=-1, keepdims=True))
    probabilities /= probabilities.sum(axis=-1, keepdims=True)
    best_first = -np.sort(-probabilities, axis=-1)
    gaps = best_first[..., :-1] - best_first[..., 1:]
    boundary, order = gaps[..., top_k - 1 : top_k], gaps[..., : top_k - 1]
    return float(boundary.min(initial=np.inf)), float(order.min(initial=np.inf))
