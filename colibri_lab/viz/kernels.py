"""Kernels to look at: what each launch asks of memory, and what the checker says of broken ones."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from linecache import getline
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from ..errors import InputError
from ..kernels import Kernel, find
from ..kernels.case import Case
from ..kernels.check import Checked, check_case
from ..kernels.device import Device, open_device
from .launches import Launches
from .theme import LIGHT, Theme, new_figure, themed

if TYPE_CHECKING:
    import pandas as pd

    from ..simt.analysis import Seen
    from ..simt.analysis_html import Listing
    from ..simt.analysis_records import Finding

MATRIX = re.compile(r"(?<!topk_)weights?\[")
_held = ExitStack()  # a notebook's device stays open as long as its process


@dataclass(frozen=True)
class Observed:
    """One launch: what was seen of its accesses, and how its result compares with its twin's."""

    entry: str
    seen: Seen
    checked: Checked
    case: Case


def lesson_device(gpu: str | None = None) -> Device:
    """The emulated device, open until the process ends; also where there is a GPU.

    gpu : whose limits and L2 it takes; None: an A100's, or what the environment says.
    """
    from .. import simt

    simt.enable(gpu, even_with_gpu=True)  # a GPU's own accesses are not seen
    opened = _held.enter_context(open_device(gpu))
    return Device(opened.driver, opened.driver.Device(0), emulated=True)


def observe(device: Device, launches: Launches, dtype: str = "float32") -> list[Observed]:
    """Run each launch once, with its accesses seen and its result held against its twin's."""
    return [observe_kernel(device, find([entry])[0], case, dtype) for entry, case in launches]


def observe_kernel(device: Device, kernel: Kernel, case: Case, dtype: str = "float32") -> Observed:
    """One kernel, which need not be of the catalogue, on one case."""
    from .. import simt

    dtype = dtype if dtype in kernel.tolerance else "float32"
    with simt.observe() as seen:
        function = device.function(kernel, dtype, ("-DOBSERVED",))
        checked = check_case(device, kernel, dtype, case, function)
    return Observed(kernel.entry, seen, checked, case)


def listing(one: Observed) -> Listing:
    """The kernel's own file with counters beside it, without the headers that it includes."""
    from ..simt.analysis_html import Listing

    kernel = one.seen.kernel(one.entry)
    own = tuple(site for site in kernel.sites if not site.place[0].endswith(".cuh"))
    return Listing(replace(kernel, sites=own))


def broken(entry: str, old: str, new: str) -> Kernel:
    """A kernel whose source has `old` replaced by `new`, wherever it stands.

    Raises InputError where the source has no such text.
    """
    kernel = find([entry])[0]
    source = kernel.path.read_text(encoding="utf-8")
    if old not in source:
        raise InputError(
            "the kernel's source has no such text", path=kernel.path, expected="a part of it",
            found=repr(old),
        )  # fmt: skip
    folder = Path(_held.enter_context(tempfile.TemporaryDirectory()))
    (folder / kernel.path.name).write_text(source.replace(old, new), encoding="utf-8")
    return replace(kernel, file=str(folder / kernel.file))


def verdicts(found: Mapping[str, Observed]) -> pd.DataFrame:
    """What the checker says of each: result against its twin, then races and bad accesses."""
    import pandas as pd

    rows = {
        what: {
            "result": one.checked.status,
            "why": one.checked.why or "-",
            "found": _in_words(one.seen.errors),
        }
        for what, one in found.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index")


def _in_words(errors: Sequence[Finding]) -> str:
    """How many of each kind, and the first in full."""
    if not errors:
        return "-"
    counts = Counter(one.trouble for one in errors)
    return f"{', '.join(f'{kind}: {n}' for kind, n in counts.items())}. First: {errors[0]}"


def traffic(paths: Mapping[str, Sequence[Observed]]) -> pd.DataFrame:
    """A row a launch: what it asks of memory, beside the least there can be."""
    import pandas as pd

    rows = []
    for path, launches in paths.items():
        for one in launches:
            totals = one.seen.totals(one.entry)
            rows.append({
                "path": path, "kernel": one.entry, "bytes": totals["global_bytes"],
                "weight_bytes": _weight_bytes(one), "least_bytes": one.case.least_bytes,
                "past_l2_bytes": totals["dram_bytes"],
                "sectors_a_request": totals["sectors_a_request"],
                "requests": totals["global_requests"], "conflicts": totals["bank_conflicts"],
                "active_lanes": totals["active_lanes"], "status": one.checked.status,
            })  # fmt: skip
    return pd.DataFrame(rows)


def _weight_bytes(one: Observed) -> int:
    """Bytes asked for by lines that load of the experts' matrices, and whatever else they load."""
    lines = one.seen.lines(one.entry)
    far = lines[lines["operation"].str.startswith("global")]
    asked = zip(far["file"], far["line"], far["bytes"], strict=True)
    return sum(int(count) for file, line, count in asked if MATRIX.search(getline(file, line)))


def traffic_figure(frames: Mapping[str, pd.DataFrame], device: str, theme: Theme = LIGHT) -> Figure:
    """Bytes that each path asks for: the experts' weights, and everything else.

    frames : title of a panel -> rows of `traffic`.   device : whose counters these are.
    """
    with themed(theme):
        figure, axes = new_figure(8.8, 0.9 + 1.9 * len(frames), len(frames), 1)
        for place, (title, frame) in zip(np.atleast_1d(axes), frames.items(), strict=True):
            _traffic_panel(place, frame, title, theme)
        figure.legend(*np.atleast_1d(axes)[0].get_legend_handles_labels(),
                      loc="outside lower center", ncols=4)  # fmt: skip
        figure.suptitle(f"{device}: bytes asked for, no times", x=0.01, ha="left", fontsize=10.5)
    return figure


def _traffic_panel(axes: Any, frame: pd.DataFrame, title: str, theme: Theme) -> None:
    sums = frame.groupby("path", sort=False)[["bytes", "weight_bytes"]].sum() / 2**20
    rest = sums["bytes"] - sums["weight_bytes"]
    places = np.arange(len(sums))[::-1]
    axes.barh(places, sums["weight_bytes"], 0.6, color=theme.series[0], label="experts' weights")
    axes.barh(places, rest, 0.6, left=sums["weight_bytes"], color=theme.series[1], hatch="//",
              edgecolor=theme.surface, label="tokens and intermediates")  # fmt: skip
    for place, (_, row), more in zip(places, sums.iterrows(), rest, strict=True):
        axes.annotate(
            f" {row['bytes']:.2f} MiB, {more:.3f} of it not weights", (row["bytes"], place),
            va="center", fontsize=8.5,
        )  # fmt: skip
    axes.set_yticks(places, list(sums.index))
    axes.set_xlim(0, sums["bytes"].max() * 1.5)
    axes.set_xlabel("MiB of global memory")
    axes.set_title(title)
    axes.tick_params(length=0)
