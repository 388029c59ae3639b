"""What a miss costs, from the command line or from what ``doctor --save`` measured."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import FormatError, InputError

if TYPE_CHECKING:
    from ..cache.cost import Costs, Tier

MIB = 1 << 20
DEFAULT = {"gbps": 2.0, "latency_s": 100e-6, "concurrency": 4}  # round numbers, no machine's own
TIERS = ("disk", "memory")
VERSION = 1  # of the file that doctor --save writes


def add_cost_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("cost model")
    group.add_argument("--machine", type=Path, metavar="FILE", help="what doctor --save wrote")
    group.add_argument("--tier", choices=TIERS, default="disk", help="of it, what misses read from")
    group.add_argument("--read-gbps", type=float, metavar="X", help="in place of the tier's")
    group.add_argument("--latency-us", type=float, metavar="X", help="of a read")
    group.add_argument("--concurrency", type=int, metavar="N", help="reads at once")
    group.add_argument("--layer-ms", type=float, default=2.0, help="a layer, experts in memory")
    text = "host memory holds so much, and reads the rest from --disk-gbps"
    group.add_argument("--host-mib", type=int, metavar="N", help=text)
    group.add_argument("--disk-gbps", type=float, metavar="X", help="behind host memory")
    group.add_argument(
        "--cpu-gbps", type=float, default=0.0, help="weights computed where they lie"
    )


def costs_of(options: argparse.Namespace) -> Costs:
    """Of the options; what they leave open is the machine's, or a round number."""
    from ..cache.cost import Costs, Tier

    found = read_machine(options.machine) if options.machine else {}
    tier = {**DEFAULT, **found.get(options.tier, {}), **_given(options)}
    disk = {**DEFAULT, **found.get("disk", {})}
    if options.disk_gbps is not None:
        disk["gbps"] = options.disk_gbps
    return Costs(
        tier=Tier(**tier),
        layer_s=options.layer_ms / 1e3,
        disk=None if options.host_mib is options.disk_gbps is None else Tier(**disk),
        host_bytes=(options.host_mib or 0) * MIB,
        cpu_gbps=options.cpu_gbps,
    )


def _given(options: argparse.Namespace) -> dict[str, Any]:
    given = {"gbps": options.read_gbps, "concurrency": options.concurrency}
    if options.latency_us is not None:
        given["latency_s"] = options.latency_us / 1e6
    return {name: value for name, value in given.items() if value is not None}


def read_machine(path: Path) -> dict[str, dict[str, Any]]:
    """Tier -> its figures; FormatError for what doctor did not write."""
    from ..cache.cost import Tier

    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["version"] != VERSION:
            raise ValueError(f"version {document['version']!r}")
        found = {name: {key: document[name][key] for key in DEFAULT} for name in TIERS}
        for tier in found.values():
            Tier(**tier)  # its own checks
        return found
    except (ValueError, KeyError, TypeError, RecursionError, InputError) as error:
        raise FormatError(
            "no measured machine",
            path=path,
            expected="what colibri-lab doctor --save writes",
            found=f"{type(error).__name__}: {error}",
        ) from error


def in_words(costs: Costs) -> str:
    """The model as a sentence."""
    parts = [f"misses read at {_tier(costs.tier)}; {1e3 * costs.layer_s:g} ms a layer"]
    if costs.disk:
        parts.append(
            f"host memory holds {costs.host_bytes / MIB:,.0f} MiB, the rest is read from disk at "
            f"{_tier(costs.disk)} before"
        )
    if costs.cpu_gbps:
        parts.append(f"the CPU computes {costs.cpu_gbps:g} GB/s of missed experts where they lie")
    return f"Cost model: {'; '.join(parts)}."


def _tier(tier: Tier) -> str:
    return (
        f"{tier.gbps:.3g} GB/s with {1e6 * tier.latency_s:.3g} us of latency, {tier.concurrency} "
        "at once"
    )
