"""The ``.cbi`` container: one expert is one contiguous, aligned read.

``address = weights_offset + slot * expert_size``; the routing table gives each (layer, expert) its
slot. Sizes and places are in `cbi_layout`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..atomic import atomic_writer
from ..errors import FormatError, InputError, ShapeError
from ..reference.weights import ExpertWeights
from .cbi_layout import CRC_OFFSET, INT8, CbiHeader, checksum, read_header
from .colibri import check_index
from .mapping import MappedFile
from .quantize import QuantizedExpert, dequantize_expert

Stored = ExpertWeights | QuantizedExpert


class CbiFile:
    """A ``.cbi`` file, mapped; FormatError says which byte is wrong.

    header : CbiHeader.   routing_table : [L, E] int32, the slot of each expert.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._file = MappedFile(self.path)
        try:
            self.header = read_header(self._file)
            self.routing_table = self._read_table()
        except BaseException:
            self._file.close()
            raise

    def address(self, layer: int, expert: int) -> int:
        """The byte offset of an expert in the file."""
        check_index("layer", layer, self.header.num_layers)
        check_index("expert", expert, self.header.num_experts)
        slot = int(self.routing_table[layer, expert])
        return self.header.weights_offset + slot * self.header.expert_stride

    def stored_expert(self, layer: int, expert: int) -> Stored:
        """Zero-copy views of an expert as it is stored: float32, or int8 with its scales."""
        header = self.header
        wide = (header.intermediate_size, header.hidden_size)
        dtype = np.dtype("i1" if header.dtype_code == INT8 else "<f4")
        start = self.address(layer, expert)
        step = header.expert_bytes // 3
        gate, up, down = (
            self._file.view(start + part * step, shape, dtype)
            for part, shape in enumerate((wide, wide, wide[::-1]))
        )
        if header.dtype_code == INT8:
            return QuantizedExpert(gate, up, down, self._scales(layer, expert))
        return ExpertWeights(gate, up, down)

    def expert(self, layer: int, expert: int) -> ExpertWeights:
        """An expert as float32: views where it is stored so, else de-quantised copies."""
        stored = self.stored_expert(layer, expert)
        return dequantize_expert(stored) if isinstance(stored, QuantizedExpert) else stored

    def router(self, layer: int) -> NDArray[np.float32]:
        """Zero-copy view [H, E] float32."""
        header = self.header
        check_index("layer", layer, header.num_layers)
        shape = (header.hidden_size, header.num_experts)
        offset = header.router_offset + layer * shape[0] * shape[1] * 4
        return self._file.view(offset, shape, "<f4")

    def router_bias(self, layer: int) -> NDArray[np.float32] | None:
        """Zero-copy view [E] float32, or None where the checkpoint had none."""
        header = self.header
        check_index("layer", layer, header.num_layers)
        if not header.has_bias:
            return None
        biases = (
            header.router_offset + header.num_layers * header.hidden_size * header.num_experts * 4
        )
        return self._file.view(
            biases + layer * header.num_experts * 4, (header.num_experts,), "<f4"
        )

    def _scales(self, layer: int, expert: int) -> NDArray[np.float32]:
        count = self.header.scales_per_expert
        slot = int(self.routing_table[layer, expert])
        return self._file.view(self.header.scales_offset + slot * count * 4, (count,), "<f4")

    def _read_table(self) -> NDArray[np.int32]:
        header = self.header
        shape = (header.num_layers, header.num_experts)
        table = self._file.view(header.routing_table_offset, shape, "<i4")
        seen = np.zeros(header.num_slots, bool)
        inside = (table >= 0) & (table < header.num_slots)
        seen[table[inside]] = True
        if not (inside.all() and seen.all()):
            wrong = int(np.count_nonzero(~seen))
            raise FormatError(
                "the routing table is no permutation",
                path=self.path,
                offset=header.routing_table_offset,
                expected=f"each slot of 0 to {header.num_slots - 1} once",
                found=f"{wrong} slots that no expert has",
            )
        return table

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> CbiFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def write_cbi(
    path: str | Path,
    header: CbiHeader,
    router: Callable[[int], NDArray[Any]],
    expert: Callable[[int, int], Stored],
    *,
    router_bias: Callable[[int], NDArray[Any]] | None = None,
    slots: NDArray[np.int32] | None = None,
) -> None:
    """Write a container, an expert at a time.

    header : from `cbi_layout.plan`.   router(layer) -> [H, E];  router_bias(layer) -> [E].
    expert(layer, e) -> ExpertWeights for float32, QuantizedExpert for int8.
    slots : [L, E] int32, a permutation: hot experts may lie together; None: in order.
    """
    table = _checked_slots(slots, header)
    order = np.argsort(table, axis=None)
    with atomic_writer(Path(path)) as file:
        file.truncate(header.file_bytes)
        head = bytearray(header.weights_offset)
        _put(head, 0, header.pack())
        _put(head, header.routing_table_offset, table.astype("<i4").tobytes())
        _put(head, header.router_offset, _routers(header, router, router_bias))
        for slot, flat in enumerate(order):
            layer, index = divmod(int(flat), header.num_experts)
            stored = expert(layer, index)
            if isinstance(stored, QuantizedExpert):
                size = header.scales_per_expert * 4
                place = header.scales_offset + slot * size
                _put(head, place, stored.scales.astype("<f4").tobytes())
            file.seek(header.weights_offset + slot * header.expert_stride)
            file.write(_matrices(stored, header))
        _put(head, CRC_OFFSET, checksum(bytes(head)).to_bytes(4, "little"))
        file.seek(0)
        file.write(head)


def _checked_slots(slots: NDArray[np.int32] | None, header: CbiHeader) -> NDArray[np.int32]:
    shape = (header.num_layers, header.num_experts)
    if slots is None:
        return np.arange(header.num_slots, dtype=np.int32).reshape(shape)
    if slots.shape != shape or sorted(slots.ravel().tolist()) != list(range(header.num_slots)):
        raise InputError(
            "the order of experts is no permutation",
            expected=f"[{shape[0]}, {shape[1]}] with each of 0 to {header.num_slots - 1} once",
            found=f"{list(slots.shape)} with {len(np.unique(slots))} different values",
        )
    return slots.astype(np.int32)


def _routers(
    header: CbiHeader,
    router: Callable[[int], NDArray[Any]],
    router_bias: Callable[[int], NDArray[Any]] | None,
) -> bytes:
    layers = range(header.num_layers)
    parts = [np.ascontiguousarray(router(layer), "<f4").tobytes() for layer in layers]
    if router_bias is not None:
        parts += [np.ascontiguousarray(router_bias(layer), "<f4").tobytes() for layer in layers]
    return _sized(b"".join(parts), header.router_bytes, "routers")


def _matrices(stored: Stored, header: CbiHeader) -> bytes:
    dtype = np.dtype("i1" if header.dtype_code == INT8 else "<f4")
    parts = (stored.gate, stored.up, stored.down)
    joined = b"".join(np.ascontiguousarray(part, dtype).tobytes() for part in parts)
    return _sized(joined, header.expert_bytes, "expert")


def _sized(data: bytes, wanted: int, what: str) -> bytes:
    if len(data) != wanted:
        raise ShapeError(
            f"the {what} given do not fit the header",
            expected=f"{wanted:,} bytes",
            found=f"{len(data):,} bytes",
        )
    return data


def _put(head: bytearray, offset: int, data: bytes) -> None:
    head[offset : offset + len(data)] = data
