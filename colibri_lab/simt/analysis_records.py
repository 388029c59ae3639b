"""What the native analysis hands out, as plain records."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

KINDS = ("load", "store", "volatile load", "volatile store", "atomic", "block")
TROUBLES = (
    "out of bounds",
    "use after free",
    "misaligned",
    "uninitialised read",
    "race",
    "barrier divergence",
    "warp mask",
    "fault",
)
SCOPES = ("within a warp", "between warps", "between blocks")
Place = tuple[str, int]  # file and line; ("", 0) where unknown


@dataclass(frozen=True)
class Site:
    """One access, or one basic block, in a kernel's machine code, over all launches.

    requests : executions by a warp, however few of its lanes took part.
    lanes : lanes that took part, summed.
    sectors, ideal_sectors : 32-byte pieces of global memory touched, and the fewest possible.
    wavefronts, ideal_wavefronts : passes over shared memory's banks, and those without conflicts.
    """

    place: Place
    address: int
    kind: str
    access_bytes: int
    space: str
    requests: int
    lanes: int
    bytes: int
    sectors: int
    ideal_sectors: int
    wavefronts: int
    ideal_wavefronts: int
    l2_hits: int
    l2_misses: int

    @property
    def conflicts(self) -> int:
        return self.wavefronts - self.ideal_wavefronts


@dataclass(frozen=True)
class Finding:
    """Something wrong, or likely wrong, that a kernel did.

    place, place2 : the line, and for a race or a divergence the other one.
    count : how often; example : the first, in the order of blocks and threads.
    is_error : False where a race writes the same value on both sides.
    """

    kernel: str
    trouble: str
    place: Place
    place2: Place | None
    detail: str
    count: int
    is_error: bool
    block: tuple[int, int, int]
    thread: tuple[int, int, int]
    block2: tuple[int, int, int] | None
    thread2: tuple[int, int, int] | None

    def __str__(self) -> str:
        lines = [f"{self.trouble} in {self.kernel}, {name_of(self.place)}: {self.detail}"]
        lines.append(f"block {self.block}, thread {self.thread}")
        if self.place2:
            lines.append(f"and {name_of(self.place2)}, block {self.block2}, thread {self.thread2}")
        lines.append("once" if self.count == 1 else f"{self.count} times")
        return "; ".join(lines)


@dataclass(frozen=True)
class Step:
    """One request of block 0: which lanes, and where in which memory each of them went.

    operation : `global load` and so on, or `barrier`, whose offsets are empty.
    buffer : the number of the allocation; 0: shared memory.
    offsets : lane -> byte offset in the buffer, or in the block's shared memory.
    """

    place: Place
    operation: str
    access_bytes: int
    warp: int
    buffer: int
    offsets: dict[int, int]


@dataclass(frozen=True)
class Kernel:
    """What was seen of one kernel, over all its launches."""

    name: str
    image_number: int
    image_path: str
    source_path: str
    is_instrumented: bool
    launches: int
    blocks: int
    threads: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    sites: tuple[Site, ...]
    findings: tuple[Finding, ...]
    steps: tuple[Step, ...]


def name_of(place: Place) -> str:
    file, line = place
    return f"{file.rsplit('/', 1)[-1]}:{line}" if line else "unknown line"


def parse_place(text: str) -> Place:
    """`/tmp/kernel.cu:12` as a file and a line."""
    file, _, line = text.rpartition(":")
    return (file, int(line)) if line.isdigit() else ("", 0)


def _position(linear: int, shape: list[int]) -> tuple[int, int, int]:
    return linear % shape[0], linear // shape[0] % shape[1], linear // shape[0] // shape[1]


def _race_detail(numbers: list[int]) -> str:
    scope, kind, kind2, same = numbers[3:7]
    text = f"{KINDS[kind]} and {KINDS[kind2]} of one word, {SCOPES[scope]}, in no order"
    return text + (", but of the same value" if same else "")


def _finding(raw: dict[str, Any], numbers: list[int], note: str) -> Finding | None:
    trouble, place, place2, _, _, _, same, count, block, thread, block2, thread2, _, size = numbers
    lines = {int(key): parse_place(text) for key, text in raw["lines"].items()}
    first, second = lines.get(place, ("", 0)), lines.get(place2) if place2 else None
    name = TROUBLES[trouble]
    if name == "barrier divergence" and second is not None and first == second and first[1]:
        return None  # the compiler made two of one barrier
    if name == "race":
        note = _race_detail(numbers)
    elif name == "uninitialised read":
        note = f"{size} bytes that nothing wrote, {note}"
    elif name == "barrier divergence" and second is not None:
        note = "threads of a block wait at different barriers"
    paired = second is not None
    return Finding(
        kernel=raw["kernel"],
        trouble=name,
        place=first,
        place2=second,
        detail=note,
        count=count,
        is_error=not same,
        block=_position(block, raw["grid"]),
        thread=_position(thread, raw["block"]),
        block2=_position(block2 if name == "race" else block, raw["grid"]) if paired else None,
        thread2=_position(thread2, raw["block"]) if paired else None,
    )


def _alike(one: Finding) -> tuple[Any, ...]:
    """What findings share that are shown as one; the sides of a race count in either order."""
    detail = one.detail
    if one.trouble == "race":
        what, _, rest = detail.partition(" of one word")
        detail = " ".join(sorted(what.split(" and "))) + rest
    elif one.trouble != "out of bounds":
        detail = ""
    return one.trouble, frozenset((one.place, one.place2)), one.is_error, detail


def _merge(findings: Iterator[Finding | None]) -> tuple[Finding, ...]:
    """One finding a pair of lines: the compiler may have several accesses on each."""
    merged: dict[tuple[Any, ...], Finding] = {}
    for one in findings:
        if one is not None:
            have = merged.get(_alike(one), one)
            count = have.count + (one.count if have is not one else 0)
            merged[_alike(one)] = replace(have, count=count)
    return tuple(merged.values())


def _sites(raw: dict[str, Any]) -> Iterator[Site]:
    for place, kind, size, space, *counts in raw["sites"]:
        is_block = KINDS[kind] == "block"
        where = "" if is_block else ("global", "shared")[space]
        line = parse_place(raw["lines"].get(str(place), ""))
        yield Site(line, place, KINDS[kind], size, where, *counts)


def _steps(raw: dict[str, Any]) -> Iterator[Step]:
    for place, kind, size, space, warp, buffer, offsets in raw["steps"]:
        name = f"{('global', 'shared')[space]} {KINDS[kind]}" if size else "barrier"
        line = parse_place(raw["lines"].get(str(place), ""))
        yield Step(line, name, size, warp, buffer, {int(i): at for i, at in offsets.items()})


def parse(text: str) -> list[Kernel]:
    """The JSON of simt_analysis_results as kernels, in the order of their first launch."""
    kernels = []
    for raw in json.loads(text):
        kernels.append(
            Kernel(
                name=raw["kernel"],
                image_number=raw["image_number"],
                image_path=raw["image"],
                source_path=raw["source"],
                is_instrumented=raw["instrumented"],
                launches=raw["launches"],
                blocks=raw["blocks"],
                threads=raw["threads"],
                grid=tuple(raw["grid"]),
                block=tuple(raw["block"]),
                sites=tuple(_sites(raw)),
                findings=_merge(_finding(raw, numbers, note) for numbers, note in raw["findings"]),
                steps=tuple(_steps(raw)),
            )
        )
    return kernels
