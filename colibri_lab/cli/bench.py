"""Benchmarks: long replays against the peers that are installed, in one run, with equal results.

A ratio is the peer's time over ours: above 1 ours is faster. The curve is of all sizes of cache at
once, and its peers replay a single one."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from ..errors import InputError
from .output import print_json, print_table

EXAMPLE = """Examples:
  colibri-lab bench
  colibri-lab bench replay-lru --lookups 10000000 --json
  colibri-lab bench replay-lru replay-optimum --trace long.parquet --slots 500"""
MOST_LOOKUPS = 1 << 28  # that are made and held in memory
HEADINGS = ("name", "shape", "look-ups", "ours ms", "M/s", "peer", "peer ms", "ratio")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="*", help="replay-lru, replay-optimum, replay-lru-curve")
    parser.add_argument("--lookups", type=int, default=1_000_000, metavar="N", help="synthetic")
    parser.add_argument("--keys", type=int, default=3072, metavar="N", help="experts, all layers")
    parser.add_argument("--slots", type=int, default=768, metavar="N", help="room for as many")
    parser.add_argument("--repeats", type=int, default=5, metavar="N")
    help_text = "look-ups of this trace, read in parts; without peers"
    parser.add_argument("--trace", type=Path, metavar="FILE.parquet", help=help_text)
    parser.add_argument("--json", action="store_true", help="one JSON document")


def run(options: argparse.Namespace) -> None:
    from ..experiments.bench import NAMES, measure, synthetic_calls

    if not (1 <= options.lookups <= MOST_LOOKUPS and 1 <= options.keys <= MOST_LOOKUPS):
        raise InputError(
            "a benchmark needs look-ups and keys",
            expected=f"--lookups and --keys of 1 to {MOST_LOOKUPS}",
            found=f"{options.lookups} and {options.keys}",
        )
    if options.trace:
        from ..cache.stream import stream_batches
        from ..traces.parquet import read_parts

        calls = stream_batches(read_parts(options.trace))
    else:
        calls = synthetic_calls(options.lookups, options.keys)
    rows = measure(
        options.name or NAMES,
        calls,
        options.slots,
        peers=not options.trace,
        repeats=options.repeats,
    )
    if options.json:
        print_json({"results": [asdict(row) for row in rows]})
        return
    print_table(
        HEADINGS,
        (
            (row.name, row.shape, row.tokens, row.ours_ms, row.tokens / row.ours_ms / 1e3,
             row.peer, row.peer_ms, row.ratio)
            for row in rows
        ),
    )  # fmt: skip
