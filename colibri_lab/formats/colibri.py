"""The ``.colibri`` container: a 64-byte header, then all gates, ups, downs and routers.

Little-endian. H hidden size, I intermediate size, E experts a layer, L MoE layers:
gate_proj [L, E, I, H], up_proj [L, E, I, H], down_proj [L, E, H, I], router [L, H, E].
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..atomic import atomic_writer
from ..errors import FormatError, InputError
from ..reference.weights import ExpertWeights
from .mapping import MappedFile

MAGIC = b"COLI"
VERSION = 0x0100
HEADER = struct.Struct("<4s7H")
HEADER_BYTES = 64
SHORT_HEADER_BYTES = 60  # what the published field list adds up to, against its own "64 bytes"
DTYPES: dict[int, np.dtype[Any]] = {0: np.dtype("<f4"), 1: np.dtype("<f2")}
CODES = {"float32": 0, "float16": 1}
FIELDS = ("num_layers", "num_experts", "top_k", "hidden_size", "intermediate_size")


@dataclass(frozen=True)
class ColibriHeader:
    """Sizes and dtype (0 float32, 1 float16), each a u16 in the file."""

    num_layers: int
    num_experts: int
    top_k: int
    hidden_size: int
    intermediate_size: int
    dtype_code: int

    @property
    def dtype(self) -> np.dtype[Any]:
        return DTYPES[self.dtype_code]

    @property
    def matrix_bytes(self) -> int:
        """Bytes of one of an expert's three matrices."""
        return self.intermediate_size * self.hidden_size * self.dtype.itemsize

    @property
    def expert_bytes(self) -> int:
        """Bytes of an expert's three matrices, which lie apart."""
        return 3 * self.matrix_bytes

    @property
    def router_bytes(self) -> int:
        return self.hidden_size * self.num_experts * self.dtype.itemsize

    @property
    def payload_bytes(self) -> int:
        """Bytes after the header."""
        experts = self.num_layers * self.num_experts * self.expert_bytes
        return experts + self.num_layers * self.router_bytes

    def matrix_offset(self, part: int, layer: int, expert: int) -> int:
        """From the end of the header; part 0 gate, 1 up, 2 down."""
        slots = self.num_layers * self.num_experts
        return (part * slots + layer * self.num_experts + expert) * self.matrix_bytes

    def router_offset(self, layer: int) -> int:
        """From the end of the header."""
        slots = self.num_layers * self.num_experts
        return 3 * slots * self.matrix_bytes + layer * self.router_bytes

    def pack(self) -> bytes:
        """The 64 bytes."""
        sizes = [getattr(self, name) for name in FIELDS]
        return HEADER.pack(MAGIC, VERSION, *sizes, self.dtype_code).ljust(HEADER_BYTES, b"\0")


class ColibriFile:
    """A ``.colibri`` file, mapped; FormatError says which byte is wrong.

    header : ColibriHeader.   header_bytes : 64, or 60 where the file's size fits only that.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._file = MappedFile(self.path)
        try:
            self.header = _read_header(self._file)
            self.header_bytes = _header_bytes(self._file, self.header)
        except BaseException:
            self._file.close()
            raise

    def expert(self, layer: int, expert: int) -> ExpertWeights:
        """Zero-copy views: gate, up [I, H]; down [H, I]."""
        wide = (self.header.intermediate_size, self.header.hidden_size)
        return ExpertWeights(
            gate=self._matrix(0, layer, expert, wide),
            up=self._matrix(1, layer, expert, wide),
            down=self._matrix(2, layer, expert, wide[::-1]),
        )

    def router(self, layer: int) -> NDArray[Any]:
        """Zero-copy view [H, E]."""
        check_index("layer", layer, self.header.num_layers)
        shape = (self.header.hidden_size, self.header.num_experts)
        offset = self.header_bytes + self.header.router_offset(layer)
        return self._file.view(offset, shape, self.header.dtype)

    def _matrix(self, part: int, layer: int, expert: int, shape: tuple[int, int]) -> NDArray[Any]:
        check_index("layer", layer, self.header.num_layers)
        check_index("expert", expert, self.header.num_experts)
        offset = self.header_bytes + self.header.matrix_offset(part, layer, expert)
        return self._file.view(offset, shape, self.header.dtype)

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> ColibriFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def write_colibri(
    path: str | Path,
    header: ColibriHeader,
    router: Callable[[int], NDArray[Any]],
    expert: Callable[[int, int], ExpertWeights],
) -> None:
    """Write a container, an expert at a time.

    router(layer) -> [H, E];   expert(layer, e) -> ExpertWeights; both float, cast to the dtype.
    InputError where a size does not fit the header, or a value the dtype.
    """
    _check_sizes(header)
    with atomic_writer(Path(path)) as file:
        file.write(header.pack())
        file.truncate(HEADER_BYTES + header.payload_bytes)
        for layer in range(header.num_layers):
            for index in range(header.num_experts):
                weights = expert(layer, index)
                for part, matrix in enumerate((weights.gate, weights.up, weights.down)):
                    file.seek(HEADER_BYTES + header.matrix_offset(part, layer, index))
                    where = f"layer {layer}, expert {index}, {('gate', 'up', 'down')[part]}"
                    file.write(_stored(matrix, header.dtype, where))
            file.seek(HEADER_BYTES + header.router_offset(layer))
            file.write(_stored(router(layer), header.dtype, f"layer {layer}, router"))


def _stored(matrix: NDArray[Any], dtype: np.dtype[Any], where: str) -> bytes:
    with np.errstate(over="ignore"):
        stored = np.ascontiguousarray(matrix, dtype)
    if np.isfinite(stored).all():
        return stored.tobytes()
    raise InputError(
        f"a weight does not fit {dtype.name}: {where}",
        expected=f"finite values of at most {np.finfo(dtype).max:g}",
        found=f"largest absolute value {np.abs(np.asarray(matrix, np.float64)).max():g}",
        hint="convert with --dtype float32",
    )


def _check_sizes(header: ColibriHeader) -> None:
    for name in FIELDS:
        value = getattr(header, name)
        if not 1 <= value <= 0xFFFF:
            raise InputError(
                f"{name} does not fit the .colibri header",
                expected="1 to 65,535",
                found=value,
                hint="the .cbi container holds larger sizes",
            )


def _read_header(file: MappedFile) -> ColibriHeader:
    if file.size < HEADER.size:
        raise FormatError(
            "the file is shorter than a header",
            path=file.path,
            expected=f"at least {SHORT_HEADER_BYTES} bytes",
            found=f"{file.size} bytes",
        )
    magic, version, *sizes, dtype_code = HEADER.unpack(file.bytes(0, HEADER.size))
    _require(file, 0, "magic", MAGIC, magic)
    _require(file, 4, "version", f"0x{VERSION:04x}", f"0x{version:04x}")
    for index, (name, value) in enumerate(zip(FIELDS, sizes, strict=True)):
        if value == 0:
            _require(file, 6 + 2 * index, name, "1 or more", 0)
    if sizes[2] > sizes[1]:
        _require(file, 10, "top_k", f"at most num_experts = {sizes[1]}", sizes[2])
    if dtype_code not in DTYPES:
        _require(file, 16, "dtype", "0 (float32) or 1 (float16)", dtype_code)
    return ColibriHeader(**dict(zip(FIELDS, sizes, strict=True)), dtype_code=dtype_code)


def _header_bytes(file: MappedFile, header: ColibriHeader) -> int:
    for length in (HEADER_BYTES, SHORT_HEADER_BYTES):
        if file.size == length + header.payload_bytes:
            reserved = file.bytes(HEADER.size, length - HEADER.size)
            if any(reserved):
                first = next(i for i, byte in enumerate(reserved) if byte)
                _require(file, HEADER.size + first, "reserved byte", 0, reserved[first])
            return length
    raise FormatError(
        "the file's size does not fit its header",
        path=file.path,
        expected=f"{HEADER_BYTES + header.payload_bytes:,} bytes",
        found=f"{file.size:,} bytes",
        hint="it may be half-written, or its header may be corrupt",
    )


def _require(file: MappedFile, offset: int, name: str, expected: Any, found: Any) -> None:
    if expected != found:
        raise FormatError(
            f"the header's {name} is wrong",
            path=file.path,
            offset=offset,
            expected=expected,
            found=found,
        )


def check_index(name: str, index: int, size: int) -> None:
    """InputError where index is not in 0..size-1."""
    if not 0 <= index < size:
        raise InputError(f"{name} is out of range", expected=f"0 to {size - 1}", found=index)
