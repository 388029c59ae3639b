"""``colibri-lab trace record`` and ``trace make``: traces of the model's own, and made-up ones."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from .output import note, print_json
from .text import read_text

if TYPE_CHECKING:
    from ..reference import RoutingTrace

FIELDS = ("num_tokens", "num_layers", "num_experts", "top_k", "expert_bytes")


def add_record_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", type=Path, required=True, metavar="PATH")
    parser.add_argument("--num-tokens", type=int, default=256, help="of each text")
    parser.add_argument("--prefill", type=int, default=16, help="tokens read at once first")
    parser.add_argument("text", type=Path, nargs="+", help="texts; several take turns")
    _add_out(parser)


def add_make_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", help="uniform, zipf, hot-set, rotating or bursts")
    for name, value in zip(FIELDS, (1024, 8, 64, 4, 1 << 20), strict=True):
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=value, metavar="N")
    parser.add_argument("--seed", type=int, default=0)
    _add_out(parser)


def _add_out(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--out", type=Path, required=True, metavar="OUT.parquet")
    parser.add_argument("--json", action="store_true", help="one JSON document")


def run_record(options: argparse.Namespace) -> None:
    """The model reads; teacher-forced, and marked so."""
    from ..errors import InputError
    from ..models import load_model
    from ..traces.record import record_reading

    if options.num_tokens < 1:
        raise InputError("there is nothing to read", expected="--num-tokens of 1 or more",
                         found=options.num_tokens)  # fmt: skip
    model = load_model(options.model, resident=True)
    if model.tokenizer is None:
        raise InputError(
            "the checkpoint has no tokenizer", path=options.model, expected="tokenizer.json"
        )
    texts = [model.tokenizer.encode(read_text(path)) for path in options.text]
    requests = [ids[: options.num_tokens] for ids in texts]
    _write(record_reading(model, requests, options.prefill), options)


def run_make(options: argparse.Namespace) -> None:
    """A synthetic trace, marked so."""
    from ..traces.synthetic import make_trace

    sizes = {name: getattr(options, name) for name in FIELDS}
    _write(make_trace(options.kind, **sizes, seed=options.seed), options)


def _write(trace: RoutingTrace, options: argparse.Namespace) -> None:
    from ..traces import write_trace

    write_trace(trace, options.out)
    if options.json:
        print_json({"trace": str(options.out), "assignments": len(trace)})
    else:
        note(f"{options.out}: {len(trace):,} assignments; {trace.source}")
