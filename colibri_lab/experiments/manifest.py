"""What a run folder's manifest says, beside the outcome: how, on what, and what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..profiling.counters import why_unavailable
from ..reference import Decoder
from .identity import code_version
from .inputs import Inputs
from .perplexity import PerplexityTable
from .records import DEFINITIONS
from .texts import Texts

if TYPE_CHECKING:
    from .session import Request


def describe_request(request: Request) -> dict[str, Any]:
    """The part that is known before anything runs."""
    return {
        "colibri_version": __version__,
        "code_version": code_version(),
        "commit": request.environment.get("commit"),
        "environment": request.environment,
        "model": describe_model(request.decoder),
        "grid": request.grid.as_dict(),
        "order": "cells in an order shuffled with the seed, so that a drift of the machine's speed "
        "does not look like an effect of an axis",
        "settings": asdict(request.settings),
        "seeds": {"order": request.seed, "inputs": request.seed},
        "texts": describe_texts(request.texts),
        "definitions": DEFINITIONS,
    }


def model_name(decoder: Decoder) -> str:
    """The checkpoint folder's name; of a model in memory, its fingerprint."""
    return Path(decoder.path).resolve().name if decoder.path else decoder.fingerprint


def describe_model(decoder: Decoder) -> dict[str, Any]:
    config = decoder.config
    return {
        "name": model_name(decoder),
        "path": str(Path(decoder.path).resolve()) if decoder.path else "",
        "fingerprint": decoder.fingerprint,
        "model_type": config.model_type,
        "num_moe_layers": config.num_moe_layers,
        **asdict(config.moe),
        "expert_bytes": list(decoder.expert_bytes),
    }


def describe_texts(texts: Texts | None) -> str | list[str] | None:
    """Where the texts are, so that a run can be resumed; None where they came from memory."""
    if texts is None or isinstance(texts, Mapping):
        return None
    if isinstance(texts, str | Path):
        return str(Path(texts).resolve())
    return [str(Path(path).resolve()) for path in texts]


def describe_inputs(inputs: Inputs, decoder: Decoder) -> dict[str, Any]:
    """What every cell was given."""
    how = (
        f"hidden states before each MoE layer, captured by the reference at top_k = "
        f"{decoder.config.moe.top_k} without a capacity policy, while the model read held-out text"
        if inputs.kind == "text"
        else "independent normal values: not what a layer is really given"
    )
    turns = (
        "call n takes the next seq_len positions of batch_size sequences; after turn_length calls "
        "the next sequences take their turn"
    )
    return {**inputs.describe(), "how": how, "turns": turns}


def unavailable(perplexities: PerplexityTable, backends: tuple[str, ...]) -> dict[str, str]:
    """Column -> why it is null."""
    reason = why_unavailable() or "this machine has counters, but a sweep does not read them"
    found = {"llc_miss_ratio": reason, "dtlb_misses_per_kinstr": reason}
    if perplexities.size is None:
        found["perplexity"] = "there are no held-out texts that the model can read"
    if "numpy" in backends:
        cache = "the numpy backend has no expert cache: all experts are in memory"
        for column in ("expert_miss_ratio", "expert_loads_per_request", "expert_bytes_read"):
            found[column] = cache
    found["latency of a failed cell"] = "no time is recorded unless the output was checked"
    return found
