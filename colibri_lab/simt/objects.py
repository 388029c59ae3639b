"""Reads the object file of a compiled source: its kernels, variables and shared memory."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field
from pathlib import Path

_SYMTAB, _RELA, _NOBITS = 2, 4, 8
_OBJECT, _FUNCTION, _LOCAL = 1, 2, 0
_ENTRY = "_ZN4simt6KernelI"  # simt::Kernel<...>::entry of core.h, whose layout follows
_ENTRY_POINTERS = {"function": 0, "call": 8, "sizes": 16, "offsets": 24}
_ENTRY_NUMBERS = 32


@dataclass
class Symbol:
    name: str
    kind: int
    is_local: bool
    section: int
    value: int
    size: int


@dataclass
class Section:
    name: str
    kind: int
    offset: int
    size: int
    link: int
    info: int
    relocations: list[tuple[int, int, int]] = field(default_factory=list)  # at, symbol, addend


@dataclass
class Kernel:
    name: str
    call: str
    sizes: str
    offsets: str
    num_args: int
    max_threads: int
    reached: set[int]  # sections
    local_names: list[str]
    static_bytes: int = 0
    window_bytes: int = 0


@dataclass
class Slot:
    """A __shared__ variable; `position` is where its offset belongs in the file."""

    section: int
    position: int
    size: int
    align: int
    number: int


class ObjectFile:
    """An ELF64 relocatable file, little-endian."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.data = path.read_bytes()
        self.sections = self._read_sections()
        self.symbols = self._read_symbols()
        self._read_relocations()

    def _read_sections(self) -> list[Section]:
        (table,) = struct.unpack_from("<Q", self.data, 40)
        entry, count, names = struct.unpack_from("<HHH", self.data, 58)
        raw = [
            struct.unpack_from("<IIQQQQIIQQ", self.data, table + entry * i) for i in range(count)
        ]
        if count == 0 and table:  # more than 65279 sections: the count is in the first one
            first = struct.unpack_from("<IIQQQQIIQQ", self.data, table)
            raw = [
                struct.unpack_from("<IIQQQQIIQQ", self.data, table + entry * i)
                for i in range(first[5])
            ]
            names = first[6] if names == 0xFFFF else names
        base = raw[names][4]
        return [Section(self._text(base + r[0]), r[1], r[4], r[5], r[6], r[7]) for r in raw]

    def _text(self, at: int) -> str:
        return self.data[at : self.data.index(b"\0", at)].decode()

    def _read_symbols(self) -> list[Symbol]:
        table = next(s for s in self.sections if s.kind == _SYMTAB)
        strings = self.sections[table.link].offset
        symbols = []
        for at in range(table.offset, table.offset + table.size, 24):
            name, info, _, section, value, size = struct.unpack_from("<IBBHQQ", self.data, at)
            symbols.append(
                Symbol(
                    self._text(strings + name), info & 15, info >> 4 == _LOCAL, section, value, size
                )
            )
        return symbols

    def _read_relocations(self) -> None:
        for section in self.sections:
            if section.kind != _RELA:
                continue
            target = self.sections[section.info]
            for at in range(section.offset, section.offset + section.size, 24):
                offset, info, addend = struct.unpack_from("<QQq", self.data, at)
                target.relocations.append((offset, info >> 32, addend))

    def target(self, symbol: int, addend: int) -> Symbol:
        """What a relocation names: a section and an offset become the symbol that lies there."""
        found = self.symbols[symbol]
        if found.name or found.section >= len(self.sections):
            return found
        for other in self.symbols:
            if other.name and other.section == found.section and other.value == addend:
                return other
        return found

    def reach(self, section: int) -> set[int]:
        """The sections that the code in this one can get at."""
        seen, todo = {section}, [section]
        while todo:
            for _, symbol, _ in self.sections[todo.pop()].relocations:
                there = self.symbols[symbol].section
                if 0 < there < len(self.sections) and there not in seen:
                    seen.add(there)
                    todo.append(there)
        return seen

    def kernels(self) -> list[Kernel]:
        """Every kernel, in the order of the file."""
        return [
            self._kernel(s)
            for s in self.symbols
            if s.kind == _OBJECT and s.name.startswith(_ENTRY) and s.name.endswith("5entryE")
        ]

    def _kernel(self, entry: Symbol) -> Kernel:
        section = self.sections[entry.section]
        pointers = {at: self.target(s, addend) for at, s, addend in section.relocations}
        found = {k: pointers[entry.value + at] for k, at in _ENTRY_POINTERS.items()}
        numbers = section.offset + entry.value + _ENTRY_NUMBERS
        num_args, max_threads = struct.unpack_from("<II", self.data, numbers)
        call = found["call"]
        return Kernel(
            found["function"].name,
            call.name,
            found["sizes"].name,
            found["offsets"].name,
            num_args,
            max_threads,
            self.reach(call.section),
            [s.name for key, s in found.items() if s.is_local and key != "function"],
        )

    def slots(self) -> list[Slot]:
        """Every __shared__ variable, in the order of the source."""
        found = []
        for s in self.symbols:
            at = s.name.rfind("simt_slot")
            if s.kind != _OBJECT or at < 0 or s.section >= len(self.sections):
                continue
            position = self.sections[s.section].offset + s.value
            _, size, align = struct.unpack_from("<III", self.data, position)
            digits = "".join(c for c in s.name[at + 9 : at + 19] if c.isdigit())
            found.append(Slot(s.section, position, size, align, int(digits)))
        return sorted(found, key=lambda slot: slot.number)

    def variables(self, names: list[str]) -> list[Symbol]:
        """The variables of these names, in whatever namespace, static ones too."""
        wanted = {f"{len(n)}{n}" for n in names}
        return [
            s
            for s in self.symbols
            if s.kind == _OBJECT
            and 0 < s.section < len(self.sections)
            and (s.name in names or _last_part(s.name) in wanted)
        ]


def _last_part(name: str) -> str:
    """`4kept` of `_ZL4kept`, `_ZN1a4keptE` or `_ZN1aL4keptE`; nothing of names that are no such."""
    plain = shown_name(name)
    if not plain.startswith("_ZN"):
        return f"{len(plain)}{plain}" if name.startswith("_ZL") else ""
    at, last = 3, ""
    while at < len(plain) and plain[at].isdigit():
        end = at
        while plain[end].isdigit():
            end += 1
        last = plain[at : end + int(plain[at:end])]
        at += len(last)
    return last if plain[at:] == "E" else ""


def shown_name(name: str) -> str:
    """A variable's name as CUDA has it: that of a static one does not say so."""
    if name.startswith("_ZL"):
        return name[3:].lstrip("0123456789")
    return re.sub(r"L(\d+\w+E)$", r"\1", name) if name.startswith("_ZN") else name


def lay_out_shared(obj: ObjectFile, kernels: list[Kernel]) -> None:
    """Gives each __shared__ variable its offset, and each kernel its sizes; writes the file.

    A kernel's own variables are packed; one that several kernels reach lies where all can have it.
    """
    data = bytearray(obj.data)
    ends = [0] * len(kernels)
    for slot in sorted(obj.slots(), key=lambda s: (-s.align, s.number)):
        users = [n for n, kernel in enumerate(kernels) if slot.section in kernel.reached]
        offset = _round_up(max((ends[n] for n in users), default=0), slot.align)
        struct.pack_into("<I", data, slot.position, offset)
        for n in users:
            ends[n] = offset + slot.size
            kernel = kernels[n]
            kernel.static_bytes = _round_up(kernel.static_bytes, slot.align) + slot.size
            kernel.window_bytes = ends[n]
    obj.path.write_bytes(data)


def _round_up(value: int, align: int) -> int:
    return (value + align - 1) // align * align
