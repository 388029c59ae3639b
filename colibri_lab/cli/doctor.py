"""What this machine can do: cores and SIMD, memory and measured bandwidth, BLAS, huge pages,
limits, counters, GPU, compilers, packages. For each thing missing: what it costs, how to get it.
With --save it measures how fast experts are read, for the cost model of ``trace replay``."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .costs import VERSION
from .output import note, print_json

if TYPE_CHECKING:
    from ..profiling.storage import Reading

EXAMPLE = """Examples:
  colibri-lab doctor --json
  colibri-lab doctor --disk . --save out/machine.json
  colibri-lab trace replay T.parquet --budget-mib 500 --machine out/machine.json"""
MARKS = {"ok": "ok", "missing": "--", "limited": "!!"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    text = "measure the disk of this folder too; writes 256 MiB and removes them"
    parser.add_argument("--disk", type=Path, metavar="FOLDER", help=text)
    text = "the measured disk and memory, for trace replay --machine; the disk of its folder"
    parser.add_argument("--save", type=Path, metavar="FILE", help=text)
    parser.add_argument("--json", action="store_true", help="one JSON document")


def run(options: argparse.Namespace) -> None:
    from ..profiling.environment import describe
    from ..profiling.machine import examine

    tiers = _tiers(options)
    findings = list(examine())
    if options.save:
        _save(options.save, tiers, describe())
    if options.json:
        found = {name: asdict(tier) for name, tier in tiers.items()}
        document = {"environment": describe(), "findings": [asdict(item) for item in findings]}
        print_json({**document, "tiers": found})
        return
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        print(f"{MARKS[finding.status]}  {finding.name:{width}}  {finding.value}")
        for label, text in {"costs": finding.cost, "to do": finding.remedy}.items():
            if text:
                print(f"    {'':{width}}  {label}: {text}")
    for name, tier in tiers.items():
        print(f"{MARKS['ok']}  {f'experts from {name}':{width}}  {_in_words(tier)}")


def _tiers(options: argparse.Namespace) -> dict[str, Reading]:
    from ..profiling.storage import measure_disk, measure_memory

    folder = options.disk or (options.save.absolute().parent if options.save else None)
    if folder is None:
        return {}
    return {"disk": measure_disk(folder), "memory": measure_memory()}


def _in_words(tier: Reading) -> str:
    return (
        f"{tier.gbps:.2f} GB/s, {1e6 * tier.latency_s:.0f} us of latency, {tier.concurrency} at "
        f"once ({tier.how})"
    )


def _save(path: Path, tiers: dict[str, Reading], environment: dict[str, Any]) -> None:
    from ..atomic import atomic_writer

    tables = {name: asdict(tier) for name, tier in tiers.items()}
    text = json.dumps(
        {"version": VERSION, **tables, "environment": environment}, indent=2, default=str
    )
    with atomic_writer(path) as file:
        file.write(text.encode() + b"\n")
    note(f"{path}: what reading experts costs here")
