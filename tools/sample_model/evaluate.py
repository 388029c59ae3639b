"""Measure the shipped model on the held-out texts and write ``evaluation.json`` beside it.

Everything is computed in float32 from the shipped bfloat16 weights. Run it from the root of the
repository: the capacity policies are those of ``colibri_lab.capacity``.
"""

import argparse
import json
import math
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import safetensors
import tokenizers
import torch
import torch.nn.functional as F
import transformers
from export import load_model
from model import Config, LanguageModel, Routing, read_published_state
from routing_measures import cache_locality, domain_information, load_balance
from safetensors.torch import load_file
from text import SEQUENCE, domains, heldout_windows, load_tokens
from tokenizer import VOCABULARY
from torch import Tensor
from train import SEED, SEQUENCES_A_DOMAIN

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from colibri_lab.capacity import Capacity, apply_capacity

BATCH = 8  # sequences a layer call, so T = 2,048
SLOTS = 4
CAPACITIES = ("hard:1.0", "hard:1.25", "soft:1.25")
Windows = dict[str, Tensor]  # domain -> [sequences, 257]


@torch.no_grad()
def measure(model: LanguageModel, batch: Tensor) -> tuple[Tensor, list[Routing]]:
    """Return the loss of every scored token ``[batch, 256]`` in nats, and the routing."""
    logits, routings = model(batch[:, :-1])
    nats = F.cross_entropy(logits.transpose(1, 2), batch[:, 1:], reduction="none")
    return nats, routings


def domain_losses(model: LanguageModel, windows: Windows) -> dict[str, float]:
    """Return nats a token by domain; every batch holds one domain."""
    return {
        domain: float(torch.cat([measure(model, part)[0] for part in rows.split(BATCH)]).mean())
        for domain, rows in windows.items()
    }


def mean_and_perplexity(losses: dict[str, float]) -> dict[str, float]:
    """Return the mean over the domains and its exponential."""
    mean = float(np.mean(list(losses.values())))
    return {"mean_nats_per_token": mean, "perplexity": math.exp(mean)}


def loss_table(model: LanguageModel, windows: Windows, tokenizer, baseline: dict) -> dict:
    """Return the loss of each domain in nats a token and bits a byte, beside the trigrams."""
    # In a byte-level vocabulary every character of a token's name stands for one byte.
    sizes = np.array([len(tokenizer.id_to_token(index)) for index in range(VOCABULARY)])
    table = {}
    for domain, nats in domain_losses(model, windows).items():
        targets = windows[domain][:, 1:].numpy()
        bytes_per_token = float(sizes[targets].mean())
        table[domain] = {
            "tokens": targets.size,
            "bytes_per_token": bytes_per_token,
            "nats_per_token": nats,
            "bits_per_byte": nats / math.log(2) / bytes_per_token,
            "trigram": baseline[domain],
        }
    return table


@contextmanager
def changed(model: LanguageModel, **settings: object) -> Iterator[None]:
    """Set attributes of every MoE layer for a while."""
    layers = [layer.moe for layer in model.layers]
    before = [{name: getattr(moe, name) for name in settings} for moe in layers]
    for moe in layers:
        vars(moe).update(settings)
    yield
    for moe, values in zip(layers, before, strict=True):
        vars(moe).update(values)


def top_k_table(model: LanguageModel, windows: Windows) -> dict[str, dict[str, float]]:
    """Return the loss with other numbers of experts a token than in training."""
    table = {}
    for top_k in (1, 2, 4, 8):
        with changed(model, top_k=top_k):
            table[str(top_k)] = mean_and_perplexity(domain_losses(model, windows))
    return table


def capacity_function(policy: Capacity):
    """Return a policy of the package in the form the model takes."""

    def apply(probabilities: Tensor, ids: Tensor, weights: Tensor):
        logits = probabilities.log().numpy()  # equal to the router's up to a constant a token
        result = apply_capacity(ids.numpy().astype(np.int32), weights.numpy(), logits, policy)
        kept = torch.from_numpy(~result.dropped)
        chosen = torch.from_numpy(np.maximum(result.topk_ids, 0).astype(np.int64))
        return chosen, torch.from_numpy(result.topk_weights), kept

    return apply


def mixed_batches(windows: Windows) -> Iterator[Tensor]:
    """Yield batches with one sequence of each domain, whose order turns from batch to batch."""
    for index, rows in enumerate(zip(*windows.values(), strict=True)):
        yield torch.stack(rows).roll(index, dims=0)


def capacity_losses(model: LanguageModel, batches: list[Tensor]) -> dict[str, float]:
    """Return loss, perplexity and the share of dropped choices over some batches."""
    results = [measure(model, batch) for batch in batches]
    mean = float(torch.cat([nats for nats, _ in results]).mean())
    kept = torch.cat([routing.kept for _, routings in results for routing in routings])
    return {
        "mean_nats_per_token": mean,
        "perplexity": math.exp(mean),
        "dropped_fraction": 1 - float(kept.float().mean()),
    }


def capacity_table(model: LanguageModel, windows: Windows) -> dict[str, dict]:
    """Return what capacity costs in batches of one domain and of all; T is 2,048 in both."""
    kinds = {
        "one_domain_batches": [part for rows in windows.values() for part in rows.split(BATCH)],
        "mixed_batches": list(mixed_batches(windows)),
    }
    table = {}
    for policy in ("none", *CAPACITIES):
        with changed(model, capacity=capacity_function(Capacity.parse(policy))):
            table[policy] = {kind: capacity_losses(model, part) for kind, part in kinds.items()}
    return table


def routing_ids(model: LanguageModel, windows: Windows) -> np.ndarray:
    """Return the chosen experts ``[L, S, T, K]`` of all sequences, domain after domain."""
    batches = [part for rows in windows.values() for part in rows.split(BATCH)]
    calls = [[r.topk_ids for r in measure(model, batch)[1]] for batch in batches]
    layers = [torch.cat(ids).numpy() for ids in zip(*calls, strict=True)]
    return np.stack(layers).reshape(len(layers), -1, SEQUENCE, layers[0].shape[-1])


def routing_table(model: LanguageModel, untrained: LanguageModel, windows: Windows) -> list[dict]:
    """Return information, load and locality by layer, beside their controls."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(len(windows)), [len(rows) for rows in windows.values()])
    inputs = torch.cat(list(windows.values()))[:, :-1].numpy()
    table = []
    for ids, initial in zip(
        routing_ids(model, windows), routing_ids(untrained, windows), strict=True
    ):
        table.append(
            {
                "domain_information": domain_information(ids[..., 0], labels, inputs, rng),
                "domain_information_untrained": domain_information(
                    initial[..., 0], labels, inputs, rng
                ),
                "load": load_balance(ids, model.config.num_local_experts),
                "load_untrained": load_balance(initial, model.config.num_local_experts),
                "lru_4_hit_ratio": cache_locality(ids, labels, SLOTS, rng),
            }
        )
    return table


@torch.no_grad()
def compare_with_transformers(model: LanguageModel, folder: Path, windows: Windows) -> dict:
    """Return the largest difference of the logits; top-1 shows that a difference would be seen."""
    batch = torch.stack([rows[0] for rows in windows.values()])
    load = transformers.AutoModelForCausalLM.from_pretrained
    theirs = load(folder, dtype=torch.float32).eval()(batch[:, :-1]).logits
    half = load(folder, dtype=torch.bfloat16).eval()(batch[:, :-1]).logits.float()
    with changed(model, top_k=1):
        top1 = model(batch[:, :-1])[0]

    def loss(logits: Tensor) -> float:
        return float(F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten()))

    return {
        "sequences": len(batch),
        "largest_logit": float(theirs.abs().max()),
        "largest_difference": float((model(batch[:, :-1])[0] - theirs).abs().max()),
        "largest_difference_if_top1": float((top1 - theirs).abs().max()),
        "float32_arithmetic_nats_per_token": loss(theirs),
        "bfloat16_arithmetic_nats_per_token": loss(half),
    }


def describe_training(checkpoint: Path) -> dict[str, object]:
    """Return the figures of the training run."""
    state = torch.load(checkpoint)
    tokens_a_step = 8 * SEQUENCES_A_DOMAIN * SEQUENCE
    return {
        "seed": SEED,
        "steps": state["step"],
        "tokens": state["step"] * tokens_a_step,
        "seconds": round(state["seconds"]),
        "threads": state["threads"],
        "parameters": sum(weight.numel() for weight in state["model"].values()),
    }


def versions() -> dict[str, str]:
    """Return the versions of what computed the figures."""
    modules = (np, safetensors, tokenizers, torch, transformers)
    found = {module.__name__: str(module.__version__) for module in modules}
    return {"python": platform.python_version(), "machine": platform.machine(), **found}


def evaluate(work: Path, folder: Path) -> dict:
    """Return all figures of the shipped model."""
    model = LanguageModel(Config()).eval()
    read_published_state(model, load_file(folder / "model.safetensors"))
    unrounded = load_model(work / "checkpoints/final.pt")
    untrained = load_model(work / "checkpoints/step-0.pt")
    held = {domain: heldout_windows(load_tokens(work, domain, "held")) for domain in domains(work)}
    windows = {domain: torch.from_numpy(rows) for domain, rows in held.items()}
    equal = min(map(len, held.values())) // BATCH * BATCH
    same = {domain: rows[:equal] for domain, rows in windows.items()}
    baseline = json.loads((work / "baseline.json").read_text())
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    losses = loss_table(model, windows, tokenizer, baseline)
    rounded = mean_and_perplexity({d: row["nats_per_token"] for d, row in losses.items()})
    before = mean_and_perplexity(domain_losses(unrounded, windows))["mean_nats_per_token"]
    return {
        "training": describe_training(work / "checkpoints/final.pt"),
        "loss": losses,
        "loss_mean": {
            **rounded,
            "trigram_all_domains": np.mean(
                [row["all_domains_nats_per_token"] for row in baseline.values()]
            ),
            "trigram_own_domain": np.mean(
                [row["own_domain_nats_per_token"] for row in baseline.values()]
            ),
            "untrained": mean_and_perplexity(domain_losses(untrained, windows))[
                "mean_nats_per_token"
            ],
            "before_rounding_to_bfloat16": before,
        },
        "tables_below": {
            "sequences_a_domain": equal,
            "tokens_a_sequence": SEQUENCE,
            "tokens_a_layer_call": BATCH * SEQUENCE,
        },
        "top_k": top_k_table(model, same),
        "capacity": capacity_table(model, same),
        "routing_by_layer": routing_table(model, untrained, same),
        "transformers": compare_with_transformers(model, folder, same),
        "versions": versions(),
    }


def rounded_figures(value: object) -> object:
    """Round all floats to five significant digits, so that the file stays readable."""
    if isinstance(value, dict):
        return {name: rounded_figures(item) for name, item in value.items()}
    if isinstance(value, list):
        return [rounded_figures(item) for item in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=Path("build/sample-model"))
    parser.add_argument("--model", type=Path, default=Path("data/tiny-moe"))
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    transformers.utils.logging.disable_progress_bar()
    text = json.dumps(rounded_figures(evaluate(options.work, options.model)), indent=1) + "\n"
    (options.model / "evaluation.json").write_text(text)
    print(text, end="")


if __name__ == "__main__":
    main()
