"""What was observed, as text for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .analysis_records import Kernel, name_of
from .analysis_table import Row, rows_of

if TYPE_CHECKING:
    from .analysis import Seen

_HEAD = (
    f"{'line':<20} {'operation':<21} {'requests':>11} {'lanes':>6} {'sectors':>9} {'conflicts':>10}"
)


def _row(row: Row) -> str:
    sectors = f"{row.sectors_a_request:.2f}" if row.sectors else "-"
    conflicts = str(row.conflicts) if row.wavefronts else "-"
    return (
        f"{name_of(row.place):<20} {row.operation:<21} {row.requests:>11} "
        f"{row.active_lanes:>6.1f} {sectors:>9} {conflicts:>10}"
    )


def _kernel(kernel: Kernel, with_counters: bool) -> list[str]:
    times = "1 launch" if kernel.launches == 1 else f"{kernel.launches} launches"
    text = [f"{kernel.name}: {times}, the last with grid {kernel.grid} and block {kernel.block}"]
    if not kernel.is_instrumented:
        return [*text, "  compiled outside `observe`: nothing was seen of it"]
    rows = [row for row in rows_of(kernel) if row.operation != "executed"]
    if with_counters and rows:
        text += ["  " + _HEAD, *("  " + _row(row) for row in rows)]
    if kernel.findings:
        text += [f"  {'!' if one.is_error else '?'} {one}" for one in kernel.findings]
    else:
        text.append("  nothing wrong found")
    return text


def text_of(seen: Seen) -> str:
    """Kernel by kernel: requests and their cost by line, then what is wrong.

    `sectors` are 32-byte sectors a request; `conflicts` passes over the banks beyond the least.
    """
    head = f"observed on the emulated device: {', '.join(seen.checks) or 'nothing'}; no times"
    text = [head]
    for kernel in seen.kernels:
        text += ["", *_kernel(kernel, "counters" in seen.checks)]
    return "\n".join(text)
