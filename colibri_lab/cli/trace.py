"""Routing traces: import those of other engines, describe them, replay them against cache policies.

``replay`` holds every policy against the exact optimum for the same budget (belady)."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..errors import InputError
from .output import note, print_json, print_table
from .sweep import whole_numbers, words

EXAMPLE = """Examples:
  colibri-lab trace import gptoss.route.csv -o gptoss.parquet
  colibri-lab trace stats gptoss.parquet
  colibri-lab trace replay gptoss.parquet --policy lru,lfu,belady --budget-mib 500,1000,3000"""
MIB = 1 << 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    read = actions.add_parser("import", help="write another engine's trace as Parquet")
    read.add_argument("--format", default="auto", metavar="NAME", help="default: by content")
    read.add_argument("-o", "--out", type=Path, required=True, metavar="OUT.parquet")
    stats = actions.add_parser("stats", help="what a trace is like")
    replay = actions.add_parser("replay", help="policies against budgets")
    replay.add_argument("--policy", type=words, default=("lru", "lfu", "belady"), metavar="A,B,…")
    replay.add_argument("--budget-mib", type=whole_numbers, metavar="N,M,…")
    replay.add_argument("--slots", type=whole_numbers, metavar="N,M,…", help="experts, all layers")
    for action in (read, stats, replay):
        action.add_argument("file", type=Path)
        action.add_argument("--json", action="store_true", help="one JSON document")


def run(options: argparse.Namespace) -> None:
    from ..traces.importers import import_trace

    name = options.format if options.action == "import" else "auto"
    trace = import_trace(options.file, name)
    {"import": _import, "stats": _stats, "replay": _replay}[options.action](trace, options)


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


def _replay(trace: Any, options: argparse.Namespace) -> None:
    from ..cache.replay import replay

    results = replay(trace, options.policy, _budgets(trace, options))
    if options.json:
        print_json({"results": [asdict(result) for result in results]})
        return
    rows = [
        (
            round(result.budget_bytes / MIB), result.policy, result.hit_ratio,
            result.decode_hit_ratio, result.prefill_hit_ratio, result.regret,
            result.bytes_read / MIB, result.peak_resident_bytes / MIB,
        )
        for result in results
    ]  # fmt: skip
    print_table(("budget MiB", "policy", "hits", "decode hits", "prefill hits", "regret",
                 "read MiB", "peak MiB"), rows)  # fmt: skip
    if not results[0].exact:
        note("note: experts differ in size; the optimum they are held against is a heuristic")


def _budgets(trace: Any, options: argparse.Namespace) -> list[int]:
    if (options.budget_mib is None) == (options.slots is None):
        raise InputError(
            "a replay needs budgets", expected="--budget-mib N,M or --slots N,M, one of them"
        )
    if options.budget_mib is not None:
        return [value * MIB for value in options.budget_mib]
    sizes = set(trace.expert_bytes)
    if len(sizes) > 1:
        raise InputError(
            "experts differ in size, so slots are no budget",
            expected="--budget-mib",
            found=f"{len(sizes)} sizes",
        )
    return [value * trace.expert_bytes[0] for value in options.slots]
