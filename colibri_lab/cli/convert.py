"""Convert the experts of a checkpoint folder to .colibri or .cbi (by the output's ending), or one
container to the other, an expert at a time.

With --quantize int8 and a checkpoint that has a tokenizer, the relative error of every expert's
output is printed, on the hidden states of --measure FILE (default: a text beside the model)."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from .output import note, print_json, print_table
from .progress import bar

EXAMPLE = "Example: colibri-lab convert data/tiny-moe tiny.cbi --quantize int8 --scale row"
MEASURED_TOKENS = 512


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", type=Path, metavar="CHECKPOINT")
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("--dtype", choices=("float32", "float16"), help=".colibri alone")
    parser.add_argument("--quantize", choices=("int8",), help=".cbi alone")
    parser.add_argument("--scale", choices=("tensor", "row"), default="tensor")
    parser.add_argument("--align", type=int, metavar="N", help=".cbi: bytes, a power of two")
    parser.add_argument(
        "--fold-bias", action="store_true", help="biases as one more row and column"
    )
    parser.add_argument("--order", type=Path, metavar="FILE", help="JSON: [[layer, expert], ...]")
    parser.add_argument("--measure", type=Path, metavar="FILE", help="text to measure int8 on")
    parser.add_argument("--json", action="store_true", help="one JSON document")


def run(options: argparse.Namespace) -> None:
    from ..models.convert import Conversion, convert, read_order
    from ..models.inspection import inspect_path

    if options.measure:
        _read_text(options.measure)  # before the work, not after it
    conversion = Conversion(
        dtype=options.dtype,
        quantize=options.quantize,
        scale=options.scale,
        align=options.align,
        fold_bias=options.fold_bias,
        order=read_order(options.order) if options.order else (),
    )
    with bar("experts") as progress:
        convert(options.source, options.out, conversion, progress)
    facts = inspect_path(options.out)
    errors = _errors(options) if options.quantize else None
    if options.json:
        print_json({**facts, "int8_errors": errors})
        return
    print(f"{facts['path']}: {facts['file_bytes']:,} bytes, {facts['dtype']}")
    if errors:
        rows = [tuple(row.values()) for row in errors]
        print_table(("layer", "expert", "tokens", "error by tensor", "error by row"), rows)


def _errors(options: argparse.Namespace) -> list[dict[str, Any]] | None:
    """A row an expert that the text used; None, with the reason said, where there is no text."""
    from ..models import load_model
    from ..models.quantization_error import quantization_errors

    text = options.measure or next(iter(sorted(_heldout(options.source).glob("*.txt"))), None)
    if text is None or not options.source.is_dir():
        note("int8 errors not measured: they need a checkpoint folder and a text (--measure FILE)")
        return None
    model = load_model(options.source, resident=False)
    if model.tokenizer is None:
        note("int8 errors not measured: the checkpoint has no tokenizer")
        return None
    ids = model.tokenizer.encode(_read_text(text))[:MEASURED_TOKENS]
    errors = quantization_errors(model, ids)
    note(f"int8 errors on the first {len(ids)} tokens of {text}")
    return [
        {
            "layer": layer,
            "expert": expert,
            "tokens": int(tokens),
            "by_tensor": float(errors.by_tensor[layer, expert]),
            "by_row": float(errors.by_row[layer, expert]),
        }
        for layer, row in enumerate(errors.tokens)
        for expert, tokens in enumerate(row)
        if tokens
    ]


def _heldout(source: Path) -> Path:
    return source.parent / "heldout"


def _read_text(path: Path) -> str:
    from .text import read_text

    return read_text(path)
