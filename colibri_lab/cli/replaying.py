"""``colibri-lab trace replay``: policies against budgets, and a verdict."""

from __future__ import annotations

import argparse
import math
from dataclasses import asdict
from typing import TYPE_CHECKING

from ..errors import InputError
from .output import print_json, print_table
from .sweep import whole_numbers, words

if TYPE_CHECKING:
    from ..cache.replay import Replay
    from ..reference import RoutingTrace

MIB = 1 << 20
HEADINGS = (
    "budget MiB", "policy", "hits", "decode hits", "prefill hits", "regret", "read MiB", "peak MiB",
    "mean MiB",
)  # fmt: skip


def add_replay_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--policy", type=words, default=("lru", "lfu", "belady"), metavar="A,B,…")
    parser.add_argument("--budget-mib", type=whole_numbers, metavar="N,M,…")
    parser.add_argument("--slots", type=whole_numbers, metavar="N,M,…", help="experts, all layers")
    parser.add_argument("--read-gbps", type=float, default=2.0, help="of the verdict's cost model")
    parser.add_argument("--latency-us", type=float, default=100.0, help="of a read")
    parser.add_argument("--concurrency", type=int, default=4, help="reads at once")
    parser.add_argument("--layer-ms", type=float, default=2.0, help="a layer, experts in memory")


def run_replay(trace: RoutingTrace, options: argparse.Namespace) -> None:
    """Replay, and judge the first policy at each budget."""
    from ..cache.replay import OPTIMUM, replay

    if not options.policy:
        raise InputError("a replay needs policies", expected="--policy A,B")
    if not 0 <= options.layer_ms < math.inf:
        raise InputError(
            "layer_ms is out of range", expected="0 or more", found=str(options.layer_ms)
        )
    budgets = budgets_of(trace, options)
    results = replay(trace, options.policy, budgets)
    current = next((name for name in options.policy if name != OPTIMUM), "lru")
    text = "\n\n".join(_verdict(trace, budget, options, current) for budget in budgets)
    if options.json:
        print_json({"results": [asdict(result) for result in results], "verdict": text})
        return
    print_table(HEADINGS, map(_row, results))
    print(f"\n{text}")
    print(
        f"\nCost model: misses read at {options.read_gbps:g} GB/s with {options.latency_us:g} us "
        f"of latency, {options.concurrency} at once; {options.layer_ms:g} ms a layer."
    )


def _verdict(trace: RoutingTrace, budget: int, options: argparse.Namespace, current: str) -> str:
    from ..cache.cost import Tier
    from ..cache.verdict import verdict

    tier = Tier(options.read_gbps, options.latency_us / 1e6, options.concurrency)
    return verdict(trace, budget, tier, options.layer_ms / 1e3, current).text


def _row(result: Replay) -> tuple[object, ...]:
    name = result.policy if result.exact or result.policy != "belady" else "belady (heuristic)"
    ratios = (result.hit_ratio, result.decode_hit_ratio, result.prefill_hit_ratio, result.regret)
    sizes = (result.bytes_read, result.peak_resident_bytes, result.mean_resident_bytes)
    return (_mib(result.budget_bytes), name, *ratios, *map(_mib, sizes))


def _mib(size: float) -> int | float:
    """Whole MiB, but for what is under ten of them: the experts of small models."""
    mib = size / MIB
    return round(mib) if mib >= 10 else mib


def budgets_of(trace: RoutingTrace, options: argparse.Namespace) -> list[int]:
    """Bytes; InputError where neither or both kinds of budget are given."""
    if bool(options.budget_mib) == bool(options.slots):
        raise InputError(
            "a replay needs budgets", expected="--budget-mib N,M or --slots N,M, one of them"
        )
    if options.budget_mib:
        return [value * MIB for value in options.budget_mib]
    sizes = set(trace.expert_bytes)
    if len(sizes) > 1:
        raise InputError(
            "experts differ in size, so slots are no budget",
            expected="--budget-mib",
            found=f"{len(sizes)} sizes",
        )
    return [value * trace.expert_bytes[0] for value in options.slots]
