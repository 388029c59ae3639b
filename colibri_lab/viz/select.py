"""Choosing the cells of a run that a figure compares: one thing varies, the rest stands still."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from ..experiments import Run

AXES = (
    "backend", "batch_size", "seq_len", "top_k", "stream_count", "capacity", "expert_cache_slots",
    "cache_policy",
)  # fmt: skip
NAMES = {
    "backend": "backend",
    "batch_size": "batch size",
    "seq_len": "tokens a sequence",
    "top_k": "top-k",
    "stream_count": "streams",
    "capacity": "capacity policy",
    "expert_cache_slots": "expert-cache slots a layer",
    "cache_policy": "cache policy",
}


def measured(run: Run) -> pd.DataFrame:
    """The cells that have results."""
    frame = run.frame
    return frame[frame["status"] == "ok"].reset_index(drop=True)


def emulated(frame: pd.DataFrame) -> pd.DataFrame:
    """The cells that no GPU computed: they have counters and a floor, and no times."""
    if "emulated" not in frame:
        return frame.iloc[:0]
    return frame[frame["emulated"].fillna(False).astype(bool)]


def timed(cells: pd.DataFrame) -> pd.DataFrame:
    """The cells that have a latency: those of an emulated device have none."""
    return cells.drop(emulated(cells).index).dropna(subset=["latency_p50_ms"])


def comparable(run: Run) -> pd.DataFrame:
    """The cells that figures and sentences compare: the timed ones, or all where none is."""
    frame = measured(run)
    real = frame.drop(emulated(frame).index)
    return frame if real.empty else real.reset_index(drop=True)


def refuse_emulated(frame: pd.DataFrame) -> None:
    """InputError where a plot of times is given cells of an emulated device."""
    found = emulated(frame)
    if len(found):
        raise InputError(
            "times of an emulated device mean nothing, and are not drawn",
            expected="cells that a real device computed",
            found=f"{len(found)} cells on {', '.join(sorted(found['device'].unique()))}",
            hint="draw its counters: colibri_lab.viz.device",
        )


def base_cell(run: Run, frame: pd.DataFrame | None = None) -> dict[str, Any]:
    """Axis -> its value in the cells that comparisons start from.

    The design's base; for a full cross, which has none, the first cell that was measured.
    frame : cells to compare; where none has the base's backend, one of theirs takes its place.
    """
    frame = measured(run) if frame is None else frame
    given = run.manifest["grid"].get("base") or {}
    first = frame.iloc[0] if len(frame) else {}
    base = {axis: given.get(axis, first.get(axis)) for axis in AXES}
    if len(frame) and base["backend"] not in set(frame["backend"]):
        cached = frame[frame["expert_cache_slots"].notna()]
        other = (frame if cached.empty else cached).iloc[0]
        base["backend"] = other["backend"]
        if cached.empty:
            base |= {axis: other[axis] for axis in ("expert_cache_slots", "cache_policy")}
    return base


def around(frame: pd.DataFrame, base: dict[str, Any], *varied: str) -> pd.DataFrame:
    """The cells that differ from the base along the varied axes alone, in their order."""
    import pandas as pd

    kept = frame
    for axis in AXES:
        if axis not in varied:
            value = base[axis]
            kept = kept[kept[axis].isna() if pd.isna(value) else (kept[axis] == value)]
    return kept.sort_values(list(varied), key=_sort_key) if varied else kept


def _sort_key(column: pd.Series) -> pd.Series:
    """Numbers by size; policies with the dropless one first."""
    if column.name != "capacity":
        return column
    return column.map(lambda policy: (policy != "none", str(policy))).astype(str)


def others(base: Mapping[str, Any] | pd.Series, *varied: str) -> str:
    """The axes that stand still, in words, for a caption."""
    import pandas as pd

    still = [axis for axis in AXES if axis not in varied and not pd.isna(base[axis])]
    return ", ".join(f"{NAMES[axis]} {base[axis]}" for axis in still)
