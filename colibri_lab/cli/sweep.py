"""Measure a grid of settings into a run folder: latency, cache misses, routing, the cost of
capacity policies. Each cell's output is checked against the reference before it is timed.

Ctrl-C stops after what is running; --resume RUN goes on with what is missing. --preset quick takes
about a minute, full about an hour; options that are given replace a preset's own."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from .output import note, print_json

if TYPE_CHECKING:
    from ..experiments import Progress, Sweep
    from ..experiments.plan import Plan

EXAMPLE = """Examples:
  colibri-lab sweep --model data/tiny-moe --preset quick --out out/run
  colibri-lab sweep --model data/tiny-moe --batch-size 1,4,16 --capacity none,hard:1.0 --dry-run"""


def whole_numbers(text: str) -> tuple[int, ...]:
    """``1,4,16`` -> (1, 4, 16)."""
    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"whole numbers with commas, not {text!r}") from error


def words(text: str) -> tuple[str, ...]:
    """``cpu,numpy`` -> ("cpu", "numpy")."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


AXES: dict[str, tuple[str, Callable[[str], Any], str]] = {
    "--batch-size": ("batch_size", whole_numbers, "sequences a call"),
    "--seq-len": ("seq_len", whole_numbers, "tokens a sequence and call; 1: a decode step"),
    "--top-k": ("top_k", whole_numbers, "experts a token"),
    "--streams": ("stream_count", whole_numbers, "micro-batches at a time"),
    "--capacity": ("capacity", words, "none, hard:1.0, hard:1.0:weight, soft:1.25"),
    "--backend": ("backend", words, "cpu, numpy, cuda"),
    "--expert-cache-size": ("expert_cache_slots", whole_numbers, "resident experts a layer"),
    "--cache-policy": ("cache_policy", words, "lru, lfu, arc and others: docs/expert-cache.md"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", type=Path, metavar="PATH")
    for option, (name, kind, meaning) in AXES.items():
        parser.add_argument(option, dest=name, type=kind, metavar="A,B,…", help=meaning)
    parser.add_argument("--preset", choices=("quick", "full"))
    parser.add_argument("--repeats", type=int, metavar="N", help="timed calls a cell")
    parser.add_argument("--warmup", type=int, metavar="N", help="calls before them")
    parser.add_argument("--blas-threads", type=int, metavar="N")
    parser.add_argument("--seed", type=int, metavar="N", help="order of cells, random inputs")
    parser.add_argument("--inputs", choices=("text", "random"), help="random marks every record")
    parser.add_argument(
        "--texts", type=Path, metavar="FOLDER", help="default: heldout beside the model"
    )
    parser.add_argument("--out", type=Path, metavar="RUN")
    parser.add_argument("--resume", type=Path, metavar="RUN", help="go on with this run")
    parser.add_argument(
        "--dry-run", action="store_true", help="cells, time and memory; nothing runs"
    )
    parser.add_argument("--json", action="store_true", help="one JSON document")


def run(options: argparse.Namespace) -> int:
    sweep = make_sweep(options)
    plan = sweep.plan()
    if options.dry_run:
        _show_plan(plan, options.json)
        return 0
    if not options.json:
        note(str(plan))
    with _Display(plan.num_cells) as display:
        found = sweep.run(progress=display.update)
    frame = found.frame
    failed = int((frame["status"] == "failed").sum())
    if options.json:
        print_json({"run": str(found.folder), "cells": len(frame), "failed": failed,
                    "reused": display.reused, "ran": display.ran})  # fmt: skip
    else:
        note(f"{found.folder}: reused {display.reused}, ran {display.ran}, failed {failed}")
    return 1 if failed else 0


def make_sweep(options: argparse.Namespace) -> Sweep:
    """The sweep that the options describe; InputError where they do not fit together."""
    from ..experiments import Sweep

    names = [name for name, _, _ in AXES.values()]
    names += ["repeats", "warmup", "blas_threads", "seed", "inputs", "texts"]
    given = {name: getattr(options, name) for name in names}
    changes = {name: value for name, value in given.items() if value is not None}
    if options.resume is not None:
        _refuse_with_resume(options, changes)
        return Sweep.of_run(options.resume)
    if options.model is None:
        raise InputError("there is no model", expected="--model PATH", hint="or --resume RUN")
    if options.out is not None:
        changes["out"] = options.out
    if options.preset:
        return Sweep.preset(options.preset, options.model, **changes)
    return Sweep(options.model, **changes)


def _show_plan(plan: Plan, as_json: bool) -> None:
    if not as_json:
        print(plan)
        return
    names = ("num_cells", "reused", "design", "estimated_s", "memory_bytes", "memory",
             "disk_bytes")  # fmt: skip
    cells = [cell.as_dict() for cell in plan.cells]
    print_json({**{name: getattr(plan, name) for name in names}, "cells": cells})


def _refuse_with_resume(options: argparse.Namespace, changes: dict[str, Any]) -> None:
    extra = [*changes, *(name for name in ("model", "preset", "out") if getattr(options, name))]
    if extra:
        raise InputError(
            "a resumed run keeps its own settings",
            expected="--resume RUN alone",
            found=", ".join(extra),
            hint="start a new run with --out for other settings",
        )


class _Display:
    """A bar on standard error: n of N, time left, the current cell, failures so far."""

    def __init__(self, total: int) -> None:
        from tqdm import tqdm

        self.reused = self.ran = 0
        form = "{n_fmt}/{total_fmt} cells, {elapsed} so far{postfix}"
        # A line that is redrawn suits a terminal; a log gets one line every few seconds.
        interval = 0.2 if sys.stderr.isatty() else 10.0
        self._bar = tqdm(
            total=total, bar_format=form, file=sys.stderr, mininterval=interval, leave=False
        )

    def update(self, event: Progress) -> None:
        self.reused = event.reused
        self.ran = event.done - event.reused
        left = "" if event.remaining_s is None else f", about {event.remaining_s:.0f} s left"
        failed = f", {event.failed} failed" if event.failed else ""
        self._bar.set_postfix_str(
            f"{left.removeprefix(', ')}{failed} | {event.label}", refresh=False
        )
        self._bar.update(event.done - self._bar.n)

    def __enter__(self) -> _Display:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()
