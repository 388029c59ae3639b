"""Benchmarks: ours and its peers in turns, in one run, with results that must agree."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from ..cache import Batches, Budget
from ..cache.replay import OPTIMUM, run_plain
from ..errors import CheckFailed, DeviceUnavailable, InputError

NAMES = ("replay-lru", "replay-optimum", "replay-lru-curve")
SKEW = 0.8  # of the synthetic look-ups' Zipf law
LIBCACHESIM_RECORD = [("time", "<u4"), ("key", "<u8"), ("size", "<u4"), ("next", "<i8")]
Replays = Callable[[], int]  # runs once; how many look-ups missed


@dataclass(frozen=True)
class Measured:
    """One benchmark against one peer.

    tokens : look-ups.   ours_ms, peer_ms : medians.   ratio : peer over ours, above 1 we are
    faster.   limit_fraction : of what the machine allows; None where no limit is known.
    rel_error : of the count of misses.   peer, peer_ms, ratio, rel_error : None without a peer.
    """

    name: str
    shape: str
    tokens: int
    ours_ms: float
    peer: str | None = None
    peer_ms: float | None = None
    ratio: float | None = None
    limit_fraction: float | None = None
    rel_error: float | None = None


def synthetic_calls(num_lookups: int, num_keys: int, seed: int = 0) -> Batches:
    """Batches of one key of size one: where the models of all peers agree."""
    rng = np.random.default_rng(seed)
    shares = np.arange(1, num_keys + 1) ** -SKEW
    keys = rng.permutation(num_keys)[rng.choice(num_keys, num_lookups, p=shares / shares.sum())]
    return Batches(
        keys=keys.astype(np.int64),
        starts=np.arange(num_lookups + 1),
        decode=np.ones(num_lookups, np.bool_),
        key_bytes=np.ones(num_keys, np.int64),
        num_experts=num_keys,
    )


def measure(
    names: Sequence[str], calls: Batches, slots: int, *, peers: bool = True, repeats: int = 5
) -> list[Measured]:
    """Each benchmark against each of its peers; without peers, ours alone.

    names : of `NAMES`.   calls : with peers, as `synthetic_calls` makes them.   slots : keys of the
    mean size that the cache has room for.
    Raises InputError for a name that is not known, DeviceUnavailable without numba, CheckFailed
    where a peer counts other misses.
    """
    unknown = [name for name in names if name not in NAMES]
    if unknown or slots < 1 or repeats < 1:
        raise InputError(
            "the benchmark cannot be run so",
            expected=f"names of {', '.join(NAMES)}; 1 slot and 1 repeat or more",
            found=", ".join([*unknown, f"{slots} slots", f"{repeats} repeats"]),
        )
    if find_spec("numba") is None:
        raise DeviceUnavailable(
            "numba is not installed", hint="pip install 'colibri-lab[fast]', or make setup"
        )
    with tempfile.TemporaryDirectory() as folder:
        others = _peers(calls, slots, Path(folder)) if peers else {name: {} for name in names}
        return [
            row
            for name in names
            for row in _rows(name, _ours(name, calls, slots), others[name], calls, slots, repeats)
        ]


def _ours(name: str, calls: Batches, slots: int) -> Replays:
    from ..cache.fast import lru_curve, replay_lru, replay_optimum

    if name == "replay-lru-curve":
        return lambda: int(_at(lru_curve(calls.keys, calls.starts), slots))
    run = replay_lru if name == "replay-lru" else replay_optimum
    # More room than all keys take is no more room; compiled code counts in 64 bits.
    budget = int(min(slots, len(calls.key_bytes)) * calls.key_bytes.mean())
    return lambda: run(calls.keys, calls.starts, calls.key_bytes, budget, calls.decode).misses


def _at(curve: Any, slots: int) -> Any:
    return curve[min(slots, len(curve) - 1)]


def _peers(calls: Batches, slots: int, folder: Path) -> dict[str, dict[str, Replays]]:
    """Benchmark -> peer -> its replay of the same look-ups. The curve's peers replay one size."""
    keys = calls.keys.tolist()
    lru: dict[str, Replays] = {"OrderedDict": lambda: ordered_dict_misses(keys, slots)}
    optimum: dict[str, Replays] = {
        "plain loop": lambda: run_plain(calls, OPTIMUM, Budget(slots)).misses
    }
    if find_spec("libcachesim") is not None:
        path = folder / "lookups.oracleGeneral"
        write_libcachesim(calls, path)
        lru["libcachesim"] = lambda: libcachesim_misses("LRU", path, len(keys), slots)
        optimum["libcachesim"] = lambda: libcachesim_misses("Belady", path, len(keys), slots)
    one_size = {f"{peer}, one size": run for peer, run in lru.items()}
    one_size["replay-lru, one size"] = _ours("replay-lru", calls, slots)
    return {"replay-lru": lru, "replay-optimum": optimum, "replay-lru-curve": one_size}


def ordered_dict_misses(keys: Sequence[int], slots: int) -> int:
    """LRU as Python has it at hand."""
    resident: OrderedDict[int, None] = OrderedDict()
    misses = 0
    for key in keys:
        if key in resident:
            resident.move_to_end(key)
        else:
            misses += 1
            resident[key] = None
            if len(resident) > slots:
                resident.popitem(last=False)
    return misses


def write_libcachesim(calls: Batches, path: Path) -> None:
    """The look-ups in libcachesim's own format, which says when each key is next needed."""
    from ..cache.optimum import next_uses

    records = np.zeros(len(calls.keys), LIBCACHESIM_RECORD)
    records["key"], records["size"] = calls.keys + 1, 1
    records["next"] = next_uses(calls.keys)
    records.tofile(path)


def libcachesim_misses(policy: str, path: Path, num_lookups: int, slots: int) -> int:
    import libcachesim

    reader = libcachesim.TraceReader(str(path), libcachesim.TraceType.ORACLE_GENERAL_TRACE)
    cache = getattr(libcachesim, policy)(cache_size=slots, hashpower=16)
    return round(cache.process_trace(reader)[0] * num_lookups)


def _rows(
    name: str, ours: Replays, peers: dict[str, Replays], calls: Batches, slots: int, repeats: int
) -> list[Measured]:
    misses = {"": ours(), **{peer: run() for peer, run in peers.items()}}  # the first run warms up
    for peer, found in misses.items():
        if found != misses[""]:
            raise CheckFailed(
                f"{name} and {peer} disagree",
                expected=f"{found} misses, as {peer} has it",
                found=misses[""],
            )
    times = _in_turns({"": ours, **peers}, repeats)
    alone = Measured(
        name=name,
        shape=f"{len(calls.key_bytes)} keys, {slots} slots",
        tokens=len(calls.keys),
        ours_ms=times[""],
    )
    if not peers:
        return [alone]
    return [
        replace(alone, peer=peer, peer_ms=times[peer], ratio=times[peer] / times[""], rel_error=0.0)
        for peer in peers
    ]


def _in_turns(runs: dict[str, Replays], repeats: int) -> dict[str, float]:
    """Median milliseconds of each; in turns, so that a disturbance meets all of them."""
    samples: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            samples[name].append(1e3 * (time.perf_counter() - start))
    return {name: statistics.median(values) for name, values in samples.items()}
