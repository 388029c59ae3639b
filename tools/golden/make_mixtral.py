"""Make the golden files of the Mixtral family with transformers.

    python -m tools.golden.make_mixtral random            every random model
    python -m tools.golden.make_mixtral random base       one of them
    python -m tools.golden.make_mixtral sample            data/tiny-moe, prompts from data/heldout

Run it from the root of the repository in the training environment; see README.md beside it.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from safetensors import safe_open

from tools.golden.capture import Array, load, run
from tools.golden.cases import Case, Plan, checksums, record, save
from tools.golden.configurations import MIXTRAL, RandomModel

LENGTHS = (1, 2, 7, 33, 128, 512)
ALL_POSITIONS_UP_TO = 33
# A prompt, single tokens, several at once: from before to past the sliding windows of 7 and 16.
DECODE = (5, *[1] * 20, 7)
# A prompt that is longer than the windows.
DECODE_BATCH = (18, *[1] * 4)


def make_random(name: str, out: Path) -> None:
    """Write out/mixtral-<name>/: the checkpoint and golden.npz."""
    spec, folder = MIXTRAL[name], out / f"mixtral-{name}"
    shutil.rmtree(folder, ignore_errors=True)
    write_checkpoint(spec, folder)
    model = load(folder)
    cases = [record(model, plan) for plan in random_plans(spec)]
    metadata = {
        "command": f"python -m tools.golden.make_mixtral random {name}",
        "seed": spec.seed,
        "sha256": checksums(folder),
        "window_difference": window_difference(folder, cases),
    }
    save(folder / "golden.npz", cases, metadata)
    report(folder.name, cases)


def write_checkpoint(spec: RandomModel, folder: Path) -> None:
    """Draw the weights and let transformers write them."""
    fields = spec.config
    fields["rope_parameters"] = {"rope_type": "default", "rope_theta": fields.pop("rope_theta")}
    model = transformers.MixtralForCausalLM(transformers.MixtralConfig(**fields))
    rng = np.random.default_rng(spec.seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(draw(name, tuple(parameter.shape), rng)))
    model.to(getattr(torch, spec.dtype))
    shard_bytes = spec.shard_bytes or 2**30
    with tempfile.TemporaryDirectory() as scratch:
        model.save_pretrained(scratch, max_shard_size=shard_bytes)
        folder.mkdir(parents=True)
        for file in [Path(scratch, "config.json"), *Path(scratch).glob("model*")]:
            shutil.copyfile(file, folder / file.name)
    if spec.published_config:
        respell(folder / "config.json")
    check_layout(folder)


def draw(name: str, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """A random parameter, scaled so that attention and routing are decisive.

    transformers' own initialisation (0.02 throughout, norms 1) leaves routers nearly flat and
    would not notice a norm weight that is never applied.
    """
    values = rng.standard_normal(shape)
    if len(shape) == 1:
        return 1 + 0.2 * values
    if "embed_tokens" in name:
        return 0.6 * values
    gain = 2.5 if "lm_head" in name else 2.0 if "mlp.gate." in name else 1.0
    return gain / np.sqrt(shape[-1]) * values


def respell(file: Path) -> None:
    """Rewrite config.json as the published checkpoints of transformers 4 have it."""
    config = json.loads(file.read_text(encoding="utf-8"))
    config["rope_theta"] = config.pop("rope_parameters")["rope_theta"]
    config["torch_dtype"] = config.pop("dtype")
    config.pop("head_dim", None)
    file.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def check_layout(folder: Path) -> None:
    """Experts must be stored one by one under the published names."""
    names: list[str] = []
    for file in folder.glob("*.safetensors"):
        with safe_open(file, "numpy") as tensors:
            names += tensors.keys()
    if not any(name.endswith("block_sparse_moe.experts.0.w1.weight") for name in names):
        raise SystemExit(f"{folder}: this transformers does not write the published tensor names")


def random_plans(spec: RandomModel) -> list[Plan]:
    """Prompts of all lengths, a batch, and two runs with a cache."""
    plan = partial(random_plan, spec)
    return [
        *[plan(f"length-{length}", (length,)) for length in LENGTHS],
        plan("batch", (11,), batch_size=2),
        plan("decode", DECODE),
        plan("decode-batch", DECODE_BATCH, batch_size=2),
    ]


def random_plan(spec: RandomModel, name: str, steps: tuple[int, ...], batch_size: int = 1) -> Plan:
    shape = (batch_size, sum(steps))

    def propose(attempt: int) -> Array:
        rng = np.random.default_rng([spec.seed, *shape, attempt])
        return rng.integers(0, spec.config["vocab_size"], shape)

    return Plan(name, propose, steps, positions(shape[1], spec.config["sliding_window"]))


def positions(length: int, window: int | None = None) -> tuple[int, ...] | None:
    """Where to store logits: everywhere in a short prompt; else ends, middle, the window's edge."""
    if length <= ALL_POSITIONS_UP_TO:
        return None
    edge = () if window is None else (window - 1, window)
    return (0, *edge, length // 3, length // 2, length - 2, length - 1)


def window_difference(folder: Path, cases: list[Case]) -> dict[str, float] | None:
    """What removing the sliding window, or one more token in it, changes in the longest prompt.

    None where the model has no window. Raises SystemExit where transformers did not apply it.
    """
    window = load(folder).config.sliding_window
    if window is None:
        return None
    longest = max(cases, key=lambda case: case.token_ids.shape[1])
    found = {}
    for label, other in {"without": None, "one_wider": window + 1}.items():
        model = load(folder, sliding_window=other)
        logits = run(model, longest.token_ids, longest.plan.steps)["logits"]
        difference = np.abs(logits - longest.result["logits"]).max(axis=(0, 2))
        if difference[:window].max() > 1e-5 or difference[window:].max() < 1e-2:
            raise SystemExit(f"{folder}: the sliding window is not applied as it should be")
        found[label] = float(difference.max())
    return found


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
        "command": f"python -m tools.golden.make_mixtral sample --checkpoint {checkpoint} "
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


def report(name: str, cases: list[Case]) -> None:
    facts = [case.facts for case in cases]
    gaps = [fact[gap] for fact in facts for gap in ("boundary_gap", "order_gap") if fact[gap]]
    tries = max(fact["attempt"] for fact in facts) + 1
    cache = max(fact["cache_difference"] for fact in facts)
    print(
        f"{name}: {len(cases)} cases, smallest router gap {min(gaps):.1e}, at most {tries} tries, "
        f"transformers with a cache against without: {cache:.1e}"
    )


def parse(arguments: list[str]) -> Any:
    parser = argparse.ArgumentParser(description="Make the golden files of the Mixtral family.")
    modes = parser.add_subparsers(dest="mode", required=True)
    random = modes.add_parser("random", help="small random models with their checkpoints")
    random.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(MIXTRAL)}")
    random.add_argument("--out", type=Path, default=Path("tests/golden"))
    sample = modes.add_parser("sample", help="the sample model, on held-out text")
    sample.add_argument("--checkpoint", type=Path, default=Path("data/tiny-moe"))
    sample.add_argument("--text", type=Path, default=Path("data/heldout"))
    sample.add_argument("--out", type=Path, default=Path("tests/golden/tiny-moe.npz"))
    options = parser.parse_args(arguments)
    unknown = set(getattr(options, "names", [])) - set(MIXTRAL)
    if unknown:
        parser.error(f"no such model: {', '.join(sorted(unknown))}; known: {', '.join(MIXTRAL)}")
    return options


def main(arguments: list[str]) -> None:
    options = parse(arguments)
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    if options.mode == "sample":
        make_sample(options.checkpoint, options.text, options.out)
        return
    for name in options.names or MIXTRAL:
        make_random(name, options.out)


if __name__ == "__main__":
    main(sys.argv[1:])
