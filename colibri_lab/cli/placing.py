"""``colibri-lab trace place``: experts over devices, before and after balancing."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

from ..errors import InputError
from .output import print_json, print_table
from .sweep import whole_numbers

if TYPE_CHECKING:
    from ..reference import RoutingTrace

HEADINGS = (
    "devices", "copies", "in order", "balanced", "held out", "worst layer", "sent", "sent balanced"
)  # fmt: skip


def add_place_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--devices", type=whole_numbers, default=(2, 4, 8), metavar="N,M,…")
    text = "copies beyond one an expert, in a layer; rounded up to as many on each device"
    parser.add_argument("--copies", type=int, default=0, metavar="N", help=text)


def run_place(trace: RoutingTrace, options: argparse.Namespace) -> None:
    """Imbalance is the busiest device's tokens over the mean, in the mean of layers."""
    if not options.devices:
        raise InputError("there are no devices", expected="--devices N,M", found="none")
    from ..cache.parallel import place

    results = [place(trace, devices, options.copies) for devices in options.devices]
    if options.json:
        print_json({"results": [asdict(result) for result in results]})
        return
    rows = (
        (each.num_devices, each.num_copies, each.contiguous, each.balanced, each.held_out,
         each.worst_layer, each.sent_contiguous, each.sent_balanced)
        for each in results
    )  # fmt: skip
    print_table(HEADINGS, rows)
    print(
        "\nThe busiest device's tokens over the mean (1: even), mean of layers: experts in order; "
        "balanced by the whole trace's loads; balanced by its first half and held against the "
        "second, of which the worst layer. Sent: assignments whose expert is on another device "
        "than their request."
    )
