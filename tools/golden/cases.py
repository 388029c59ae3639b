"""The prompts of a golden file, chosen so that their routing is well defined, and their record."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from tools.golden.capture import Array, run
from tools.golden.ranking import agrees, router_gaps

SCHEMA_VERSION = 1
# Weights in float32 were seen to be 2e-6 from those in float64: ten times that leaves no doubt.
SMALLEST_GAP = 2e-5
MAX_TRIES = 300
Propose = Callable[[int], Array]


@dataclass(frozen=True)
class Plan:
    """One case to be recorded.

    propose : try number -> token_ids [B, S]; tried until the router gaps are wide enough.
    steps : sizes of the chunks that are fed; more than one: with a cache.
    positions : where logits, moe_inputs and hidden_states are stored; None: everywhere.
    """

    name: str
    propose: Propose
    steps: tuple[int, ...]
    positions: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Case:
    """A plan carried out: token_ids [B, S], what `run` returned, and facts for the metadata."""

    plan: Plan
    token_ids: Array
    result: dict[str, Array]
    facts: dict[str, Any]


def record(model: Any, plan: Plan) -> Case:
    """Run the first proposal whose routing is well defined; SystemExit where none is."""
    for attempt in range(MAX_TRIES):
        token_ids = plan.propose(attempt)
        result = run(model, token_ids, plan.steps)
        boundary, order = _gaps(model, result)
        if min(boundary, order) > SMALLEST_GAP:
            if not agrees(result["choice"], result["topk_ids"]):
                raise SystemExit(f"{plan.name}: the router ranks experts by something else")
            facts = {
                "name": plan.name,
                "steps": list(plan.steps),
                "attempt": attempt,
                "boundary_gap": _finite(boundary),
                "order_gap": _finite(order),
                "cache_difference": _cache_difference(model, token_ids, result),
            }
            return Case(plan, token_ids, result, facts)
    raise SystemExit(
        f"{plan.name}: no prompt of {MAX_TRIES} has router gaps over {SMALLEST_GAP}: "
        "change the seed of the weights"
    )


def _gaps(model: Any, result: dict[str, Array]) -> tuple[float, float]:
    """Router gaps; where groups are chosen first, their gap counts as one of the boundary."""
    boundary, order = router_gaps(result["choice"], result["topk_ids"].shape[-1])
    if result["groups"].shape[-1]:
        boundary = min(boundary, router_gaps(result["groups"], model.config.topk_group)[0])
    return boundary, order


def _cache_difference(model: Any, token_ids: Array, result: dict[str, Array]) -> float:
    """How far transformers is from itself without a cache: the floor of any comparison."""
    whole = run(model, token_ids, [token_ids.shape[1]])
    return float(np.abs(whole["logits"] - result["logits"]).max())


def save(file: Path, cases: Sequence[Case], metadata: dict[str, Any]) -> None:
    """Write the arrays as ``<case>/<array>`` and the metadata as JSON in the array `metadata`."""
    arrays: dict[str, Any] = {}
    for case in cases:
        arrays |= {f"{case.plan.name}/{name}": value for name, value in _arrays(case).items()}
    used = np.maximum.reduce([_experts_used(case) for case in cases])
    everything = {
        "schema_version": SCHEMA_VERSION,
        **metadata,
        **versions(),
        "computed_in": "float32, attention and experts eager, 1 thread",
        "boundary_gap": _smallest(cases, "boundary_gap"),
        "order_gap": _smallest(cases, "order_gap"),
        "experts_used": used.sum(axis=-1).tolist(),
        "largest_logit": max(float(np.abs(case.result["logits"]).max()) for case in cases),
        "cases": [case.facts for case in cases],
    }
    arrays["metadata"] = np.array(json.dumps(everything, indent=1))
    np.savez_compressed(file, **arrays)


def _arrays(case: Case) -> dict[str, Array]:
    length = case.token_ids.shape[1]
    positions = range(length) if case.plan.positions is None else case.plan.positions
    at = np.array(sorted(set(positions)), np.int32)
    result = case.result
    return {
        "token_ids": case.token_ids.astype(np.int32),
        "positions": at,
        "logits": result["logits"][:, at],
        "hidden_states": result["hidden_states"][:, at],
        "moe_inputs": result["moe_inputs"][:, :, at],
        "topk_ids": result["topk_ids"].astype(np.int32),
        "topk_weights": result["topk_weights"],
    }


def _experts_used(case: Case) -> Array:
    """[L, E] bool."""
    ids, num_experts = case.result["topk_ids"], case.result["choice"].shape[-1]
    return (ids.reshape(len(ids), -1, 1) == np.arange(num_experts)).any(axis=1)


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _smallest(cases: Sequence[Case], name: str) -> float | None:
    return min((case.facts[name] for case in cases if case.facts[name] is not None), default=None)


def report(name: str, cases: Sequence[Case]) -> None:
    facts = [case.facts for case in cases]
    gaps = [fact[gap] for fact in facts for gap in ("boundary_gap", "order_gap") if fact[gap]]
    tries = max(fact["attempt"] for fact in facts) + 1
    cache = max(fact["cache_difference"] for fact in facts)
    print(
        f"{name}: {len(cases)} cases, smallest router gap {min(gaps):.1e}, at most {tries} tries, "
        f"transformers with a cache against without: {cache:.1e}"
    )


def versions() -> dict[str, str]:
    """The versions that the numbers depend on."""
    return {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }


def checksums(folder: Path) -> dict[str, str]:
    """File name -> sha256 of configuration and weights: what the numbers were made from."""
    files = [folder / "config.json", *folder.glob("model*.safetensors*")]
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(files)}
