"""Sites added up by source line: rows, a DataFrame, and the totals of a kernel."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .analysis_arithmetic import Arithmetic, arithmetic
from .analysis_records import Kernel, Place, Site

if TYPE_CHECKING:
    import pandas as pd

COUNTS = (
    "requests",
    "lanes",
    "bytes",
    "sectors",
    "ideal_sectors",
    "wavefronts",
    "ideal_wavefronts",
    "l2_hits",
    "l2_misses",
)


@dataclass
class Row:
    """What one line does in one way (`global load`, say), summed."""

    kernel: str
    place: Place
    operation: str
    requests: int = 0
    lanes: int = 0
    bytes: int = 0
    sectors: int = 0
    ideal_sectors: int = 0
    wavefronts: int = 0
    ideal_wavefronts: int = 0
    l2_hits: int = 0
    l2_misses: int = 0

    @property
    def sectors_a_request(self) -> float:
        return self.sectors / self.requests if self.sectors else 0.0

    @property
    def conflicts(self) -> int:
        """Passes over the banks beyond those that the accesses need without conflicts."""
        return self.wavefronts - self.ideal_wavefronts

    @property
    def active_lanes(self) -> float:
        return self.lanes / self.requests if self.requests else 0.0


@dataclass(frozen=True)
class LineTotal:
    """All of one line: its accesses, how its lanes took part, and its arithmetic."""

    place: Place
    rows: list[Row] = field(default_factory=list)
    blocks: Row | None = None
    flops: int = 0
    functions: int = 0


def _add(row: Row, site: Site) -> None:
    for name in COUNTS:
        setattr(row, name, getattr(row, name) + getattr(site, name))


def rows_of(kernel: Kernel) -> list[Row]:
    """One row a line and operation, in the order of the lines; `executed`: the basic blocks'."""
    rows: dict[tuple[Place, str], Row] = {}
    for site in kernel.sites:
        operation = "executed" if site.kind == "block" else f"{site.space} {site.kind}"
        key = (site.place, operation)
        _add(rows.setdefault(key, Row(kernel.name, site.place, operation)), site)
    return [rows[key] for key in sorted(rows)]


def by_line(kernel: Kernel) -> dict[Place, LineTotal]:
    """Everything known of each line that has an access, a basic block or arithmetic."""
    work = {one.place: one for one in _arithmetic(kernel)}
    rows = rows_of(kernel)
    totals: dict[Place, LineTotal] = {}
    for place in sorted({row.place for row in rows} | set(work)):
        mine = [row for row in rows if row.place == place]
        done = work.get(place)
        totals[place] = LineTotal(
            place,
            [row for row in mine if row.operation != "executed"],
            next((row for row in mine if row.operation == "executed"), None),
            done.flops if done else 0,
            done.functions if done else 0,
        )
    return totals


def _arithmetic(kernel: Kernel) -> list[Arithmetic]:
    if not any(site.kind == "block" for site in kernel.sites):
        return []
    return arithmetic(kernel)


def lines(kernels: Iterable[Kernel]) -> pd.DataFrame:
    """The rows of kernels as a DataFrame, without the basic blocks'."""
    import pandas as pd

    records = []
    for kernel in kernels:
        for row in rows_of(kernel):
            if row.operation == "executed":
                continue
            file, line = row.place
            record: dict[str, Any] = {"kernel": row.kernel, "file": file, "line": line}
            record |= {"operation": row.operation, "active_lanes": row.active_lanes}
            record |= {name: getattr(row, name) for name in COUNTS if name != "lanes"}
            record |= {"sectors_a_request": row.sectors_a_request, "conflicts": row.conflicts}
            records.append(record)
    return pd.DataFrame.from_records(records)


def totals(kernel: Kernel) -> dict[str, Any]:
    """Sums over a kernel's launches; ratios are None where nothing was of their kind.

    dram_bytes : what the L2 model missed, times its sectors' 32 bytes.
    flops : None where nothing was counted.
    """
    rows = [row for row in rows_of(kernel) if row.operation != "executed"]
    far = [row for row in rows if row.operation.startswith("global")]
    near = [row for row in rows if row.operation.startswith("shared")]
    executed = [site for site in kernel.sites if site.kind == "block"]
    work = _arithmetic(kernel)
    sectors, requests = sum(row.sectors for row in far), sum(row.requests for row in far)
    misses = sum(row.l2_misses for row in far)
    warps = sum(site.requests for site in executed)
    return {
        "kernel": kernel.name,
        "emulated": True,
        "launches": kernel.launches,
        "threads": kernel.threads,
        "global_bytes": sum(row.bytes for row in far),
        "global_requests": requests,
        "sectors": sectors,
        "ideal_sectors": sum(row.ideal_sectors for row in far),
        "sectors_a_request": sectors / requests if requests else None,
        "l2_misses": misses,
        "l2_hit_ratio": 1 - misses / sectors if sectors else None,
        "dram_bytes": 32 * misses,
        "shared_bytes": sum(row.bytes for row in near),
        "shared_requests": sum(row.requests for row in near),
        "bank_conflicts": sum(row.conflicts for row in near),
        "active_lanes": sum(site.lanes for site in executed) / warps if warps else None,
        "flops": sum(one.flops for one in work) if executed else None,
        "float64_flops": sum(one.float64 for one in work) if executed else None,
        "function_calls": sum(one.functions for one in work) if executed else None,
    }
