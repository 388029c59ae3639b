"""Make the golden files of the small random models with transformers.

    python -m tools.golden.make_random                        all of them
    python -m tools.golden.make_random mixtral-base olmoe     one, and all of a family

Run it from the root of the repository in the training environment; see README.md beside it.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from functools import partial
from pathlib import Path

import numpy as np
import torch
import transformers

from tools.golden.capture import Array, run
from tools.golden.cases import Case, Plan, checksums, record, report, save
from tools.golden.configurations import ALL, RandomModel
from tools.golden.models import load, write_checkpoint

# A prompt, single tokens, several at once: from before to past the sliding windows of 6 to 16.
DECODE = (5, *[1] * 20, 7)
# A prompt that is longer than the windows.
DECODE_BATCH = (18, *[1] * 4)


def make_random(name: str, out: Path) -> None:
    """Write out/<name>/: the checkpoint and golden.npz."""
    spec, folder = ALL[name], out / name
    shutil.rmtree(folder, ignore_errors=True)
    write_checkpoint(spec, folder)
    model = load(folder)
    cases = [record(model, plan) for plan in random_plans(spec)]
    metadata = {
        "command": f"python -m tools.golden.make_random {name}",
        "seed": spec.seed,
        "sha256": checksums(folder),
        "window_difference": window_difference(folder, cases),
    }
    save(folder / "golden.npz", cases, metadata)
    report(folder.name, cases)


def random_plans(spec: RandomModel) -> list[Plan]:
    """Prompts of all lengths, a batch, and two runs with a cache."""
    plan = partial(random_plan, spec)
    return [
        *[plan(f"length-{length}", (length,)) for length in spec.prompts.lengths],
        plan("batch", (11,), batch_size=2),
        plan("decode", DECODE),
        plan("decode-batch", DECODE_BATCH, batch_size=2),
    ]


def random_plan(spec: RandomModel, name: str, steps: tuple[int, ...], batch_size: int = 1) -> Plan:
    shape = (batch_size, sum(steps))

    def propose(attempt: int) -> Array:
        rng = np.random.default_rng([spec.seed, *shape, attempt])
        return rng.integers(0, spec.config["vocab_size"], shape)

    return Plan(name, propose, steps, positions(spec, steps))


def positions(spec: RandomModel, steps: tuple[int, ...]) -> tuple[int, ...] | None:
    """Where to store logits: everywhere in a short prompt; else ends, middle, the window's edge,
    and the end of the first chunk."""
    length, window = sum(steps), spec.config.get("sliding_window")
    if length <= spec.prompts.whole:
        return None
    edge = () if window is None else (window - 1, window)
    chunk = () if len(steps) == 1 else (steps[0] - 1, steps[0])
    return (0, *edge, *chunk, length // 3, length // 2, length - 2, length - 1)


def window_difference(folder: Path, cases: list[Case]) -> dict[str, float] | None:
    """What removing the sliding window, or one more token in it, changes in the longest prompt.

    None where the model has no window. Raises SystemExit where transformers did not apply it.
    """
    window = getattr(load(folder).config, "sliding_window", None)
    if not window:
        return None
    longest = max(cases, key=lambda case: case.token_ids.shape[1])
    found = {}
    for label, other in {"without": 1 << 20, "one_wider": window + 1}.items():
        model = load(folder, sliding_window=other)
        logits = run(model, longest.token_ids, longest.plan.steps)["logits"]
        difference = np.abs(logits - longest.result["logits"]).max(axis=(0, 2))
        if difference[:window].max() > 1e-5 or difference[window:].max() < 1e-2:
            raise SystemExit(f"{folder}: the sliding window is not applied as it should be")
        found[label] = float(difference.max())
    return found


def chosen(words: list[str]) -> list[str]:
    """The models that the words name, whole or by their family; all where there are none."""
    unknown = [word for word in words if not any(name.startswith(word) for name in ALL)]
    if unknown:
        raise SystemExit(f"no such model: {', '.join(unknown)}; known: {', '.join(ALL)}")
    return [name for name in ALL if not words or any(name.startswith(word) for word in words)]


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description="Make the golden files of small random models.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="a model or how several begin")
    parser.add_argument("--out", type=Path, default=Path("tests/golden"))
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    for name in chosen(options.names):
        make_random(name, options.out)


if __name__ == "__main__":
    main(sys.argv[1:])
