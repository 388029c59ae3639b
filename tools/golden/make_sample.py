"""Make the golden file of the sample model with transformers.

    python -m tools.golden.make_sample            data/tiny-moe, prompts from data/heldout

Run it from the root of the repository in the training environment; see README.md beside it.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

import numpy as np
import torch
import transformers

from tools.golden.capture import Array
from tools.golden.cases import Plan, checksums, record, report, save
from tools.golden.models import load

LENGTHS = (1, 2, 7, 33, 128, 512)


def make_sample(checkpoint: Path, text: Path, file: Path) -> None:
    """Write the golden file of an existing checkpoint, with prompts from the text files."""
    model = load(checkpoint)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(checkpoint / "tokenizer.json")
    )
    texts = {
        path.stem: np.array(tokenizer.encode(path.read_text("utf-8"), add_special_tokens=False))
        for path in sorted(text.glob("*.txt"))
    }
    if not texts:
        raise SystemExit(f"no *.txt under {text}")
    plans = text_plans(texts, model.config.max_position_embeddings)
    cases = [record(model, plan) for plan in plans]
    metadata = {
        "command": f"python -m tools.golden.make_sample --checkpoint {checkpoint} "
        f"--text {text} --out {file}",
        "sha256": checksums(checkpoint),
    }
    save(file, cases, metadata)
    report(file.stem, cases)


def text_plans(texts: dict[str, Array], longest: int) -> list[Plan]:
    """Every length once, the texts in turn; 48 tokens of each text; a batch; a run with a cache."""
    names = list(texts)
    lengths = sorted({min(length, longest) for length in LENGTHS})
    turns = [(names[turn % len(names)], length) for turn, length in enumerate(lengths)]
    steps: list[tuple[str, tuple[int, ...]]] = [
        *[(name, (length,)) for name, length in turns],
        *[(name, (48,)) for name in names],
        (names[-1], (32, *[1] * 16)),
    ]
    plans = [text_plan(name, texts[name], chunks) for name, chunks in steps]
    return [*plans, batch_plan(names[0], texts[names[0]], names[-1], texts[names[-1]])]


def text_plan(name: str, ids: Array, steps: tuple[int, ...]) -> Plan:
    length = sum(steps)
    label = f"{name}-{length}" if len(steps) == 1 else f"{name}-{steps[0]}-decode-{len(steps) - 1}"
    # A vocabulary's worth of logits a position is large: few positions, the last among them.
    stored = range(length) if length <= 7 else {steps[0] - 1, length // 2, length - 1}
    return Plan(label, partial(window_of, ids, length), steps, tuple(stored))


def batch_plan(first_name: str, first: Array, second_name: str, second: Array) -> Plan:
    def propose(attempt: int) -> Array:
        return np.concatenate([window_of(ids, 33, attempt) for ids in (first, second)])

    return Plan(f"batch-{first_name}-{second_name}", propose, (33,), (16, 32))


def window_of(ids: Array, length: int, attempt: int) -> Array:
    """[1, length] tokens of a text, further on in it with every attempt."""
    if len(ids) <= length:
        raise SystemExit(f"a text of {len(ids)} tokens is too short for a prompt of {length}")
    start = (97 * attempt) % (len(ids) - length)
    return ids[None, start : start + length]


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description="Make the golden file of the sample model.")
    parser.add_argument("--checkpoint", type=Path, default=Path("data/tiny-moe"))
    parser.add_argument("--text", type=Path, default=Path("data/heldout"))
    parser.add_argument("--out", type=Path, default=Path("tests/golden/tiny-moe.npz"))
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    make_sample(options.checkpoint, options.text, options.out)


if __name__ == "__main__":
    main(sys.argv[1:])
