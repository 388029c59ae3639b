"""One prompt and the held-out texts through every way of storing the experts.

``python -m tools.compare_containers`` prints a table: bytes, first new token that differs from the
checkpoint's, perplexity on the held-out texts.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from colibri_lab.models import Conversion, convert, load_model
from colibri_lab.reference import Decoder
from colibri_lab.reference.metrics import next_token_losses, perplexity

WAYS: dict[str, tuple[str, Conversion]] = {
    "colibri float32": (".colibri", Conversion()),
    "colibri float16": (".colibri", Conversion(dtype="float16")),
    "cbi float32": (".cbi", Conversion()),
    "cbi int8 by tensor": (".cbi", Conversion(quantize="int8", scale="tensor")),
    "cbi int8 by row": (".cbi", Conversion(quantize="int8", scale="row")),
}


Ids = np.ndarray[Any, np.dtype[np.int64]]


def held_out(model: Decoder, texts: Path, length: int) -> Ids:
    """[domains, length] token ids, the start of each held-out text."""
    files = sorted(texts.glob("*.txt"))
    encoded = [model.tokenizer.encode(file.read_text(encoding="utf-8"))[:length] for file in files]
    return np.array(encoded)


def row(
    name: str, size: int, model: Decoder, prompt: list[int], ids: Ids, greedy: list[int]
) -> None:
    """One line of the table."""
    new = model.generate(prompt, len(greedy)).token_ids
    pairs = enumerate(zip(new, greedy, strict=False))
    differs = [place for place, (found, wanted) in pairs if found != wanted]
    first = str(differs[0]) if differs else f"none of {len(greedy)}"
    value = perplexity(next_token_losses(model.forward(ids).logits, ids))
    print(f"| {name} | {size:,} | {first} | {value:.4f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=Path("data/tiny-moe"))
    parser.add_argument("--texts", type=Path, default=Path("data/heldout"))
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--prompt", default="And the king said unto his servants,")
    parser.add_argument("--new-tokens", type=int, default=64)
    options = parser.parse_args()
    model = load_model(options.model)
    prompt = model.tokenizer.encode(options.prompt)
    ids = held_out(model, options.texts, options.length)
    greedy = model.generate(prompt, options.new_tokens).token_ids
    print("| experts | bytes | first differing token | perplexity |\n|---|--:|--:|--:|")
    stored = sum(file.stat().st_size for file in options.model.glob("*.safetensors"))
    row("checkpoint (whole)", stored, model, prompt, ids, greedy)
    for name, (ending, conversion) in WAYS.items():
        with tempfile.TemporaryDirectory() as folder:
            out = convert(options.model, Path(folder) / f"experts{ending}", conversion)
            converted = load_model(options.model, experts=out)
            row(name, out.stat().st_size, converted, prompt, ids, greedy)


if __name__ == "__main__":
    main()
