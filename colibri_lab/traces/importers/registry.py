"""Which importer reads a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from ...errors import InputError, TraceError
from ...reference.trace import RoutingTrace
from ..parquet import MAX_EXPERT_BYTES, MAX_TABLE, read_trace
from . import (
    bigmoe,
    colibri,
    counters,
    jsontrace,
    llamacpp,
    mbolt,
    policylang,
    sglang,
    usage,
    vllm,
)
from .common import Given
from .histogram import ExpertHistogram, no_sequence

HEAD_BYTES = 4096


@dataclass(frozen=True)
class TraceFormat:
    """recognise(first bytes) says whether a file is of this format; read(path, given) reads it.

    confirm(path) : for a format that its first bytes do not tell from another.
    """

    name: str
    recognise: Callable[[bytes], bool]
    read: Callable[[Path, Given], RoutingTrace | ExpertHistogram]
    confirm: Callable[[Path], bool] = lambda path: True  # noqa: ARG005


FORMATS = {
    found.name: found
    for found in (
        TraceFormat(
            "moe-policylang", policylang.recognise, policylang.read, policylang.has_columns
        ),
        TraceFormat(
            "colibri-lab", lambda head: head[:4] == b"PAR1", lambda path, _: read_trace(path)
        ),
        TraceFormat("bigmoe", bigmoe.recognise, lambda path, _: bigmoe.read(path)),
        TraceFormat("colibri", colibri.recognise, colibri.read),
        TraceFormat("colibri-usage", usage.recognise, usage.read),
        TraceFormat("llama.cpp", llamacpp.recognise, llamacpp.read),
        TraceFormat("mbolt", mbolt.recognise, mbolt.read),
        TraceFormat("vllm", vllm.recognise, vllm.read),
        TraceFormat("sglang", sglang.recognise, sglang.read),
        TraceFormat("counters", counters.recognise, counters.read),
        TraceFormat("json-lines", jsontrace.recognise_lines, jsontrace.read_lines),
        TraceFormat("json", jsontrace.recognise_document, jsontrace.read_document),
    )
}


def import_any(
    path: str | Path, name: str = "auto", *, expert_bytes: int = 0, num_experts: int = 0
) -> RoutingTrace | ExpertHistogram:
    """Read a trace, or a histogram, of a known format.

    name : of the format, or ``auto`` to recognise it by content.
    expert_bytes, num_experts : what the format does not say (docs/trace-formats.md); 0, nothing.
    Raises TraceError where it is none of them or malformed, InputError for an unknown name.
    """
    path = Path(path)
    limits = {
        "expert_bytes": (expert_bytes, MAX_EXPERT_BYTES),
        "num_experts": (num_experts, MAX_TABLE),
    }
    for option, (value, most) in limits.items():
        if not 0 <= value <= most:
            raise InputError(f"{option} is out of range", expected=f"0 to {most}", found=value)
    given = Given(expert_bytes, num_experts)
    found = _format(path, name).read(path, given)
    if isinstance(found, RoutingTrace):
        return told(found, path, expert_bytes, num_experts)
    _check_experts(path, found.load.shape[1], num_experts)
    return found


def told(found: RoutingTrace, path: Path, expert_bytes: int, num_experts: int) -> RoutingTrace:
    """The trace with the size that was given; TraceError where it says otherwise itself."""
    _check_experts(path, found.num_experts, num_experts)
    if not expert_bytes:
        return found
    sizes = set(found.expert_bytes)
    if sizes - {0, expert_bytes}:
        raise _contradiction(path, "size of an expert", "--expert-bytes", expert_bytes, max(sizes))
    return replace(found, expert_bytes=(expert_bytes,) * found.num_layers)


def import_trace(
    path: str | Path, name: str = "auto", *, expert_bytes: int = 0, num_experts: int = 0
) -> RoutingTrace:
    """Read a trace of a known format: `import_any`, but a histogram is refused (TraceError)."""
    found = import_any(path, name, expert_bytes=expert_bytes, num_experts=num_experts)
    if isinstance(found, ExpertHistogram):
        raise no_sequence(Path(path))
    return found


def _check_experts(path: Path, stored: int, given: int) -> None:
    if given and stored != given:
        raise _contradiction(path, "number of experts", "--num-experts", given, stored)


def _contradiction(path: Path, what: str, option: str, given: int, stored: int) -> TraceError:
    return TraceError(
        f"the trace says another {what} than was given",
        path=path,
        expected=given,
        found=stored,
        hint=f"leave {option} out",
    )


def _format(path: Path, name: str) -> TraceFormat:
    if name != "auto":
        if name not in FORMATS:
            raise InputError(
                "the trace format is not known", expected=f"auto, {', '.join(FORMATS)}", found=name
            )
        return FORMATS[name]
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    for known in FORMATS.values():
        if known.recognise(head) and known.confirm(path):
            return known
    raise TraceError(
        "the file is empty" if not head else "the file is of no known trace format",
        path=path,
        expected=", ".join(FORMATS),
        found=repr(head[:40]),
        hint="--format NAME reads it as one of them; docs/trace-formats.md says what each is",
    )
