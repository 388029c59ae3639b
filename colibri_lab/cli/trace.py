"""Routing traces: import those of other engines, describe them, replay them against cache policies.

``replay`` holds every policy against the exact optimum for the same budget (belady)."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from .output import note, print_json, print_table
from .replaying import add_replay_arguments, run_replay

EXAMPLE = """Examples:
  colibri-lab trace import gptoss.route.csv -o gptoss.parquet
  colibri-lab trace stats gptoss.parquet
  colibri-lab trace replay gptoss.parquet --policy lru,lfu,belady --budget-mib 500,1000,3000"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    read = actions.add_parser("import", help="write another engine's trace as Parquet")
    read.add_argument("--format", default="auto", metavar="NAME", help="default: by content")
    read.add_argument("-o", "--out", type=Path, required=True, metavar="OUT.parquet")
    stats = actions.add_parser("stats", help="what a trace is like")
    replay = actions.add_parser("replay", help="policies against budgets")
    add_replay_arguments(replay)
    for action in (read, stats, replay):
        action.add_argument("file", type=Path)
        action.add_argument("--json", action="store_true", help="one JSON document")


def run(options: argparse.Namespace) -> None:
    from ..traces.importers import import_trace

    name = options.format if options.action == "import" else "auto"
    trace = import_trace(options.file, name)
    {"import": _import, "stats": _stats, "replay": run_replay}[options.action](trace, options)


def _import(trace: Any, options: argparse.Namespace) -> None:
    from ..traces import write_trace

    write_trace(trace, options.out)
    if options.json:
        print_json({"trace": str(options.out), "assignments": len(trace)})
    else:
        note(f"{options.out}: {len(trace):,} assignments, {options.out.stat().st_size:,} bytes")


def _stats(trace: Any, options: argparse.Namespace) -> None:
    from ..traces.stats import trace_stats

    found = trace_stats(trace)
    if options.json:
        print_json(found)
        return
    layers = ("entropy_bits", "balancedness", "distinct_share", "step_overlap")
    width = max(map(len, found))
    for name, value in found.items():
        if name not in (*layers, "warnings"):
            print(
                f"{name:{width}}  {value:,}"
                if isinstance(value, int)
                else f"{name:{width}}  {value}"
            )
    rows = zip(range(trace.num_layers), *(found[name].tolist() for name in layers), strict=True)
    print_table(("layer", *layers), rows)
    for warning in found["warnings"]:
        note(f"note: {warning}")
