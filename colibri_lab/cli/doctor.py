"""What this machine can do: cores and SIMD, memory and measured bandwidth, BLAS, huge pages,
limits, counters, GPU, compilers, packages. For each thing missing: what it costs, how to get it."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from .output import print_json

EXAMPLE = "Example: colibri-lab doctor --json"
MARKS = {"ok": "ok", "missing": "--", "limited": "!!"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON document")


def run(options: argparse.Namespace) -> None:
    from ..profiling.environment import describe
    from ..profiling.machine import examine

    findings = list(examine())
    if options.json:
        print_json({"environment": describe(), "findings": [asdict(item) for item in findings]})
        return
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        print(f"{MARKS[finding.status]}  {finding.name:{width}}  {finding.value}")
        for label, text in {"costs": finding.cost, "to do": finding.remedy}.items():
            if text:
                print(f"    {'':{width}}  {label}: {text}")
