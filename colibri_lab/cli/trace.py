"""Routing traces: import those of other engines, describe them, replay them against cache policies.

``replay`` holds every policy against the exact optimum for the same budget (belady); ``place``
says how unevenly the experts load several devices."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from .making import add_make_arguments, add_record_arguments, run_make, run_record
from .output import note, print_json, print_table
from .placing import add_place_arguments, run_place
from .replaying import add_replay_arguments, is_long, run_long, run_replay

EXAMPLE = """Examples:
  colibri-lab trace import gptoss.route.csv -o gptoss.parquet
  colibri-lab trace import routes.jsonl --expert-bytes 9437184 --num-experts 128 -o own.parquet
  colibri-lab trace stats gptoss.parquet
  colibri-lab trace replay gptoss.parquet --policy lru,lfu,belady --budget-mib 500,1000,3000
  colibri-lab trace place gptoss.parquet --devices 4,8 --copies 16"""


OWN = {"record": run_record, "make": run_make}
SIZES = {"expert-bytes": "of one expert, as stored", "num-experts": "a layer"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    read = actions.add_parser("import", help="write another engine's trace as Parquet")
    read.add_argument("-o", "--out", type=Path, required=True, metavar="OUT.parquet")
    stats = actions.add_parser("stats", help="what a trace is like")
    replay = actions.add_parser("replay", help="policies against budgets")
    add_replay_arguments(replay)
    add_record_arguments(actions.add_parser("record", help="the routing while a model reads texts"))
    add_make_arguments(actions.add_parser("make", help="a synthetic trace, marked so"))
    place = actions.add_parser("place", help="experts over devices: imbalance and traffic")
    add_place_arguments(place)
    for action in (read, stats, replay, place):
        action.add_argument("file", type=Path)
        action.add_argument("--format", default="auto", metavar="NAME", help="default: by content")
        for name, what in SIZES.items():
            text = f"{what}; where the file does not say"
            action.add_argument(f"--{name}", type=int, default=0, metavar="N", help=text)
        action.add_argument("--json", action="store_true", help="one JSON document")


def run(options: argparse.Namespace) -> None:
    if options.action in OWN:
        OWN[options.action](options)
        return
    if options.action == "replay" and is_long(options.file):
        run_long(options)
        return
    from ..traces.importers import import_any, import_trace

    # A histogram has figures, but no order to replay.
    read = import_any if options.action == "stats" else import_trace
    trace = read(
        options.file,
        options.format,
        expert_bytes=options.expert_bytes,
        num_experts=options.num_experts,
    )
    actions = {"import": _import, "stats": _stats, "replay": run_replay, "place": run_place}
    actions[options.action](trace, options)


def _import(trace: Any, options: argparse.Namespace) -> None:
    from ..traces import write_trace

    write_trace(trace, options.out)
    if options.json:
        print_json({"trace": str(options.out), "assignments": len(trace)})
    else:
        note(f"{options.out}: {len(trace):,} assignments, {options.out.stat().st_size:,} bytes")


def _stats(trace: Any, options: argparse.Namespace) -> None:
    from ..traces.importers import ExpertHistogram
    from ..traces.stats import trace_stats

    found = trace.stats() if isinstance(trace, ExpertHistogram) else trace_stats(trace)
    if options.json:
        print_json(found)
        return
    names = ("entropy_bits", "balancedness", "distinct_share", "step_overlap")
    layers = [name for name in names if name in found]
    width = max(map(len, found))
    for name, value in found.items():
        if name not in (*layers, "warnings"):
            print(f"{name:{width}}  {_text(value)}")
    rows = zip(range(found["num_layers"]), *(found[name].tolist() for name in layers), strict=True)
    print_table(("layer", *layers), rows)
    for warning in found["warnings"]:
        note(f"note: {warning}")


def _text(value: Any) -> str:
    """Numbers short; a value for each layer as its mean."""
    if isinstance(value, dict):
        return ", ".join(f"{key}: {item:.1f}" for key, item in value.items())
    if hasattr(value, "mean"):
        return f"{value.mean():.3f} (mean of layers)"
    return f"{value:,.0f}" if isinstance(value, int | float) else str(value)
