"""What a checkpoint folder, a .colibri or a .cbi file holds: sizes, shapes, checks.

--verify reads every value and names each tensor or expert with NaN or infinity: exit status 1.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from .output import print_json

EXAMPLE = "Example: colibri-lab inspect data/tiny-moe --verify"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", type=Path)
    parser.add_argument("--verify", action="store_true", help="read every value")
    parser.add_argument("--json", action="store_true", help="one JSON document")


def run(options: argparse.Namespace) -> int:
    from ..models.inspection import inspect_path
    from ..models.verification import verify_path

    facts = inspect_path(options.path)
    problems = verify_path(options.path) if options.verify else None
    if problems is not None:
        facts["problems"] = problems
    if options.json:
        print_json(facts)
    else:
        width = max(map(len, facts))
        for name, value in facts.items():
            if name != "problems":
                print(f"{name:{width}}  {_text(value)}")
        if problems is not None:
            print("\n".join(problems) if problems else "every value is finite")
    return 1 if problems else 0


def _text(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return str(value)
