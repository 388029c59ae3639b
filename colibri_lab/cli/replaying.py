"""``colibri-lab trace replay``: policies against budgets, and a verdict."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError, TraceError
from .costs import MIB, add_cost_arguments, costs_of, in_words
from .output import note, print_json, print_table
from .sweep import whole_numbers, words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..cache import Batches, Budget, Replay, Rules
    from ..cache.cost import Costs
    from ..reference import RoutingTrace

STREAM_FROM = 20_000_000  # assignments of a Parquet file; larger ones are never whole in memory
JUDGED = 2_000_000  # assignments that a verdict looks at, which takes many replays
HEADINGS = (
    "budget", "policy", "hits", "decode hits", "prefill hits", "regret", "read MiB", "peak MiB",
    "mean MiB",
)  # fmt: skip
APART = ("by cache", "by pin", "ahead")


def add_replay_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--policy", type=words, default=("lru", "lfu", "belady"), metavar="A,B,…")
    parser.add_argument("--budget-mib", type=whole_numbers, metavar="N,M,…")
    parser.add_argument("--slots", type=whole_numbers, metavar="N,M,…", help="experts, all layers")
    parser.add_argument("--per-layer", action="store_true", help="split the budget evenly")
    parser.add_argument("--per-token", action="store_true", help="each token asks for itself")
    parser.add_argument("--bypass", action="store_true", help="what was used need not stay")
    parser.add_argument("--top-k", type=int, metavar="K", help="the best K a token")
    text = "the busiest N of the first half stay; scored on the second half"
    parser.add_argument("--pins", type=int, default=0, metavar="N", help=text)
    text = "read guesses ahead: frequency, last-token, markov, look-ahead"
    parser.add_argument("--prefetch", default="", metavar="NAME", help=text)
    parser.add_argument("--depth", type=int, metavar="N", help="guesses; default top-k")
    add_cost_arguments(parser)


def is_long(path: Path) -> bool:
    """Whether a file is a Parquet trace too long to be read whole."""
    from ..traces.parquet import count_rows

    rows = count_rows(path)
    return rows is not None and rows >= STREAM_FROM


def run_long(options: argparse.Namespace) -> None:
    """Replay a trace that is read in parts; the verdict looks at its beginning."""
    from ..cache.stream import stream_batches
    from ..traces.importers.registry import told
    from ..traces.parquet import read_parts

    if options.format not in ("auto", "colibri-lab"):
        raise InputError(
            "the trace is of another format", expected="--format colibri-lab", found=options.format
        )
    if options.top_k is not None or options.per_token:
        raise InputError(
            "the trace is too long for this",
            expected=f"under {STREAM_FROM:,} assignments for --top-k and --per-token",
            found=str(options.file),
        )

    def parts(**size: int) -> Iterator[RoutingTrace]:
        for part in read_parts(options.file, **size):
            yield told(part, options.file, options.expert_bytes, options.num_experts)

    first = next(parts(rows=JUDGED), None)
    if first is None:
        raise TraceError("the trace is empty", path=options.file, expected="rows", found="none")
    note(f"replaying {options.file} in parts; the verdict is of its first {len(first):,} rows")
    scope = f"Of its first {len(first):,} assignments: "
    _run(stream_batches(parts()), first, options, scope)


def run_replay(trace: RoutingTrace, options: argparse.Namespace) -> None:
    """Replay, and judge the first policy at each budget."""
    from ..cache import batches

    chosen = trace if options.top_k is None else trace.best(options.top_k)
    other = options.per_layer or options.per_token or options.bypass
    scope = "Of one cache for all layers, call by call: " if other else ""
    judged = chosen
    if len(chosen) > JUDGED:
        judged = chosen.rows(slice(JUDGED))
        scope = f"Of its first {JUDGED:,} assignments: {scope}"
        note(f"replaying {len(chosen):,} assignments; the verdict is of the first {JUDGED:,}")
    _run(batches(chosen, per_token=options.per_token), judged, options, scope)


def _run(calls: Batches, trace: RoutingTrace, options: argparse.Namespace, scope: str) -> None:
    """scope : said before each verdict, of `trace`, where that is less than what is replayed."""
    from ..cache import replay

    _check(options)
    costs, budgets = costs_of(options), budgets_of(options)
    calls, rules = _rules(calls, trace, options)
    results = replay(calls, options.policy, budgets, rules)
    text = "\n\n".join(scope + _judge(trace, budget, options, costs) for budget in budgets)
    if options.json:
        print_json({"results": [asdict(result) for result in results], "verdict": text})
        return
    apart = bool(rules.pinned or rules.predictor)
    headings = (*HEADINGS, *APART) if apart else HEADINGS
    print_table(headings, (_row(result, apart) for result in results))
    print(f"\n{text}\n\n{in_words(costs)}")


def _check(options: argparse.Namespace) -> None:
    """InputError where options say nothing, or would be passed over."""
    if not options.policy:
        raise InputError("a replay needs policies", expected="--policy A,B")
    if options.pins < 0:
        raise InputError("pins cannot be negative", expected="--pins 0 or more", found=options.pins)
    if options.depth is not None and not options.prefetch:
        raise InputError(
            "nothing is read ahead",
            expected="--prefetch NAME beside --depth",
            found="--depth alone",
        )


def _rules(
    calls: Batches, trace: RoutingTrace, options: argparse.Namespace
) -> tuple[Batches, Rules]:
    """What is replayed, and how: with pins it is the half that they were not fitted on."""
    from ..cache import Rules
    from ..cache.held_out import busiest, halves

    pinned: frozenset[int] = frozenset()
    if options.pins:
        first, calls = halves(calls)
        pinned = busiest(first, options.pins)
    depth = trace.top_k if options.depth is None else options.depth
    return calls, Rules(pinned, options.bypass, options.prefetch, depth if options.prefetch else 0)


def _judge(trace: RoutingTrace, budget: Budget, options: argparse.Namespace, costs: Costs) -> str:
    from ..cache.replay import OPTIMUM
    from ..cache.verdict import verdict

    current = next((name for name in options.policy if name != OPTIMUM), "lru")
    sizes = set(trace.expert_bytes)
    if budget.in_slots and len(sizes) > 1:
        return "No verdict: experts differ in size, so it needs --budget-mib."
    amount = budget.amount * sizes.pop() if budget.in_slots else budget.amount
    return verdict(trace, amount, costs, current).text


def _row(result: Replay, apart: bool) -> tuple[Any, ...]:
    name = result.policy if result.exact or result.policy != "belady" else "belady (heuristic)"
    regret: object = result.regret if result.exact else f"<= {result.regret:.3f}"
    ratios = (result.hit_ratio, result.decode_hit_ratio, result.prefill_hit_ratio, regret)
    sizes = (result.bytes_read, result.peak_resident_bytes, result.mean_resident_bytes)
    parts = (result.cache_hit_ratio, result.pin_hit_ratio, result.prefetch_hit_ratio)
    row = (_budget(result), name, *ratios, *map(_mib, sizes))
    return (*row, *parts) if apart else row


def _budget(result: Replay) -> str:
    layers = ", by layer" if result.per_layer else ""
    if result.budget_bytes is None:
        return f"{result.slots:,} slots{layers}"
    return f"{_mib(result.budget_bytes):,} MiB{layers}"


def _mib(size: float) -> int | float:
    """Whole MiB, but for what is under ten of them: the experts of small models."""
    mib = size / MIB
    return round(mib) if mib >= 10 else mib


def budgets_of(options: argparse.Namespace) -> list[Budget]:
    """InputError where neither or both kinds of budget are given."""
    from ..cache import Budget

    if bool(options.budget_mib) == bool(options.slots):
        raise InputError(
            "a replay needs budgets", expected="--budget-mib N,M or --slots N,M, one of them"
        )
    if options.budget_mib:
        return [Budget(n * MIB, per_layer=options.per_layer) for n in options.budget_mib]
    return [Budget(n, in_slots=True, per_layer=options.per_layer) for n in options.slots]
