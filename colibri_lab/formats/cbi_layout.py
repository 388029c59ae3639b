"""The ``.cbi`` container's header: what is where, packed and checked.

Little-endian. The published part ends at 0x28; the extension block follows there.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from ..errors import FormatError, InputError
from .mapping import MappedFile

MAGIC = b"COLIBRI\0"
VERSION = 1
PUBLISHED = struct.Struct("<8sIIQQQ")  # magic, version, E, expert_size, table and weights offset
EXTENSION = struct.Struct("<IIIIIIIIQQQI")
FLAGS = struct.Struct("<I")  # there only where the block size says so
EXTENSION_OFFSET = 0x28
CRC_OFFSET = EXTENSION_OFFSET + EXTENSION.size - 4
ROUTER_BIAS = 1
FLOAT32, INT8 = 0, 2
PER_TENSOR, PER_ROW = 0, 1
MIB = 1 << 20
HUGE_PAGE, SMALL_PAGE = 2 * MIB, 4096
LIMIT = 1 << 62  # larger sizes are nonsense; under it sums of a few products cannot mislead


@dataclass(frozen=True)
class CbiHeader:
    """Everything that a reader needs to address an expert.

    dtype_code : 0 float32, 2 int8.   scale_granularity : 0 one a tensor, 1 one a row.
    has_bias : a router bias [L, E] follows the routers.
    """

    num_experts: int
    expert_stride: int
    routing_table_offset: int
    weights_offset: int
    num_layers: int
    hidden_size: int
    intermediate_size: int
    top_k: int
    dtype_code: int
    scale_granularity: int
    alignment: int
    router_offset: int
    scales_offset: int
    file_bytes: int
    has_bias: bool = False

    @property
    def num_slots(self) -> int:
        return self.num_layers * self.num_experts

    @property
    def expert_bytes(self) -> int:
        """Bytes of an expert's three matrices, without padding."""
        value = 1 if self.dtype_code == INT8 else 4
        return 3 * self.intermediate_size * self.hidden_size * value

    @property
    def scales_per_expert(self) -> int:
        """float32 scales that an expert has: gate, up, down in turn."""
        if self.dtype_code != INT8:
            return 0
        return scales_per_expert(self.scale_granularity, self.hidden_size, self.intermediate_size)

    @property
    def table_bytes(self) -> int:
        return 4 * self.num_slots

    @property
    def router_bytes(self) -> int:
        """Bytes of all routers [L, H, E], with the biases [L, E] where there are any."""
        rows = self.hidden_size + (1 if self.has_bias else 0)
        return 4 * self.num_layers * rows * self.num_experts

    @property
    def scales_bytes(self) -> int:
        return 4 * self.num_slots * self.scales_per_expert

    @property
    def header_bytes(self) -> int:
        """Bytes of the published part and the extension block."""
        return EXTENSION_OFFSET + EXTENSION.size + (FLAGS.size if self.has_bias else 0)

    def pack(self, crc: int = 0) -> bytes:
        """The header; `crc` is of every byte before weights_offset except its own four."""
        published = PUBLISHED.pack(
            MAGIC,
            VERSION,
            self.num_experts,
            self.expert_stride,
            self.routing_table_offset,
            self.weights_offset,
        )
        extension = EXTENSION.pack(
            self.header_bytes - EXTENSION_OFFSET,
            self.num_layers,
            self.hidden_size,
            self.intermediate_size,
            self.top_k,
            self.dtype_code,
            self.scale_granularity,
            self.alignment,
            self.router_offset,
            self.scales_offset,
            self.file_bytes,
            crc,
        )
        return published + extension + (FLAGS.pack(ROUTER_BIAS) if self.has_bias else b"")


def scales_per_expert(granularity: int, hidden_size: int, intermediate_size: int) -> int:
    """One for each of three matrices, or one for each of their rows."""
    return 3 if granularity == PER_TENSOR else 2 * intermediate_size + hidden_size


def round_up(value: int, alignment: int) -> int:
    """The least multiple of alignment that is not under value."""
    return -(-value // alignment) * alignment


def plan(
    *,
    num_layers: int,
    num_experts: int,
    hidden_size: int,
    intermediate_size: int,
    top_k: int,
    dtype_code: int,
    scale_granularity: int = PER_TENSOR,
    alignment: int | None = None,
    has_bias: bool = False,
) -> CbiHeader:
    """Lay a new file out: header, routing table, routers, scales, then aligned experts.

    alignment : of the weights and of each expert, None: 2 MiB for the weights, and for experts of
        1 MiB or more; smaller experts are aligned to 4 KiB.
    """
    draft = CbiHeader(
        num_experts, 0, 0, 0, num_layers, hidden_size, intermediate_size, top_k, dtype_code,
        scale_granularity, 0, 0, 0, 0, has_bias,
    )  # fmt: skip
    _check_sizes(draft)
    if alignment is not None and not _is_power_of_two(alignment):
        raise InputError(
            "the alignment must be a power of two", expected="1 to 2,147,483,648", found=alignment
        )
    large = draft.expert_bytes >= MIB
    expert_alignment = alignment or (HUGE_PAGE if large else SMALL_PAGE)
    table = round_up(draft.header_bytes, 64)
    router = round_up(table + draft.table_bytes, 64)
    scales = round_up(router + draft.router_bytes, 64)
    weights = round_up(scales + draft.scales_bytes, alignment or HUGE_PAGE)
    stride = round_up(draft.expert_bytes, expert_alignment)
    return replace(
        draft,
        expert_stride=stride,
        routing_table_offset=table,
        weights_offset=weights,
        alignment=expert_alignment,
        router_offset=router,
        scales_offset=scales,
        file_bytes=weights + stride * draft.num_slots,
    )


def _is_power_of_two(value: int) -> bool:
    return 1 <= value < 1 << 32 and value & (value - 1) == 0


def _check_sizes(header: CbiHeader) -> None:
    names = ("num_layers", "num_experts", "hidden_size", "intermediate_size", "top_k")
    for name in names:
        value = getattr(header, name)
        if not 1 <= value < 1 << 32:
            raise InputError(
                f"{name} does not fit the .cbi header", expected="1 to 4,294,967,295", found=value
            )
    if header.top_k > header.num_experts:
        raise InputError(
            "top_k is over num_experts",
            expected=f"at most {header.num_experts}",
            found=header.top_k,
        )


def read_header(file: MappedFile) -> CbiHeader:
    """The header of a mapped file, every field checked; FormatError says which byte is wrong."""
    smallest = EXTENSION_OFFSET + EXTENSION.size
    if file.size < smallest:
        raise FormatError(
            "the file is shorter than a header",
            path=file.path,
            expected=f"at least {smallest} bytes",
            found=f"{file.size} bytes",
        )
    magic, version, experts, stride, table, weights = PUBLISHED.unpack(
        file.bytes(0, PUBLISHED.size)
    )
    _require(file, 0x00, "magic", magic == MAGIC, MAGIC, magic)
    _require(file, 0x08, "version", version == VERSION, VERSION, version)
    block, *fields, crc = EXTENSION.unpack(file.bytes(EXTENSION_OFFSET, EXTENSION.size))
    layers, hidden, inner, top_k, dtype, granularity, alignment, router, scales, size = fields
    has_bias = _read_flags(file, block)
    header = CbiHeader(
        experts, stride, table, weights, layers, hidden, inner, top_k, dtype, granularity,
        alignment, router, scales, size, has_bias,
    )  # fmt: skip
    _check_fields(file, header)
    _check_places(file, header)
    _check_crc(file, header, crc)
    return header


def _read_flags(file: MappedFile, block: int) -> bool:
    plain, flagged = EXTENSION.size, EXTENSION.size + FLAGS.size
    wanted = f"{plain} or {flagged}"
    _require(file, EXTENSION_OFFSET, "extension size", block in (plain, flagged), wanted, block)
    if block == plain:
        return False
    offset = EXTENSION_OFFSET + EXTENSION.size
    (flags,) = FLAGS.unpack(file.bytes(offset, FLAGS.size))
    _require(file, offset, "flags", flags == ROUTER_BIAS, ROUTER_BIAS, flags)
    return True


def _check_fields(file: MappedFile, header: CbiHeader) -> None:
    sizes = {
        0x0C: ("expert_count", header.num_experts),
        0x2C: ("num_layers", header.num_layers),
        0x30: ("hidden_size", header.hidden_size),
        0x34: ("intermediate_size", header.intermediate_size),
        0x38: ("top_k", header.top_k),
        0x44: ("alignment", header.alignment),
    }
    for offset, (name, value) in sizes.items():
        _require(file, offset, name, value > 0, "1 or more", value)
    fits = header.top_k <= header.num_experts
    _require(file, 0x38, "top_k", fits, f"at most {header.num_experts}", header.top_k)
    known = header.dtype_code in (FLOAT32, INT8)
    _require(file, 0x3C, "dtype", known, "0 (float32) or 2 (int8)", header.dtype_code)
    known = header.scale_granularity in (PER_TENSOR, PER_ROW)
    _require(file, 0x40, "scale granularity", known, "0 or 1", header.scale_granularity)
    stride, least = header.expert_stride, header.expert_bytes
    _require(file, 0x10, "expert_size", least <= stride < LIMIT, f"at least {least:,}", stride)


def _check_places(file: MappedFile, header: CbiHeader) -> None:
    """Every part inside the file, after the header, and none over another."""
    whole = header.weights_offset + header.expert_stride * header.num_slots
    _require(file, 0x20, "weights_offset", whole == file.size, f"ends at {file.size:,}", whole)
    _require(file, 0x58, "file size", header.file_bytes == file.size, file.size, header.file_bytes)
    parts = sorted(
        [
            (0, header.header_bytes, "header", 0x28),
            (header.routing_table_offset, header.table_bytes, "routing table", 0x18),
            (header.router_offset, header.router_bytes, "routers", 0x48),
            (header.scales_offset, header.scales_bytes, "scales", 0x50),
        ]
    )
    # The weights come last: the checksum covers all that is before them.
    parts.append((header.weights_offset, header.expert_stride, "weights", 0x20))
    for (start, size, name, field), (following, _, other, _) in pairwise(parts):
        wanted = f"ends at or before {following:,}, where the {other} begin"
        _require(file, field, f"{name} offset", start + size <= following, wanted, start)
        _require(file, field, f"{name} offset", start % 4 == 0, "a multiple of 4", start)


def _check_crc(file: MappedFile, header: CbiHeader, stored: int) -> None:
    found = checksum(file.bytes(0, header.weights_offset))
    _require(file, CRC_OFFSET, "CRC-32", stored == found, f"0x{found:08x}", f"0x{stored:08x}")


def checksum(head: bytes) -> int:
    """CRC-32 of every byte before weights_offset except the checksum's own four."""
    return zlib.crc32(head[CRC_OFFSET + 4 :], zlib.crc32(head[:CRC_OFFSET]))


def _require(
    file: MappedFile, offset: int, name: str, holds: bool, expected: Any, found: Any
) -> None:
    if not holds:
        raise FormatError(
            f"the header's {name} is wrong",
            path=file.path,
            offset=offset,
            expected=expected,
            found=found,
        )
