"""Converting experts between a checkpoint folder, ``.colibri`` and ``.cbi``."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..formats.cbi import Stored, write_cbi
from ..formats.cbi_layout import FLOAT32, INT8, PER_ROW, PER_TENSOR, CbiHeader, plan
from ..formats.colibri import CODES, ColibriHeader, write_colibri
from ..formats.quantize import quantize_expert
from ..reference.weights import Array, ExpertWeights
from .containers import SUFFIXES, CheckpointExperts, ExpertSource, Sizes, fold, open_experts

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Conversion:
    """How experts are to be stored.

    dtype : of ``.colibri``, None: float32 (a ``.colibri`` source keeps its own).
    quantize, scale : ``int8`` with one scale a ``tensor`` or a ``row``; ``.cbi`` alone.
    align : of a ``.cbi``'s experts; None: what the format says.
    fold_bias : put experts' biases into one more row and column.
    order : a ``.cbi``'s experts from first to last slot, as (layer, expert); the rest follow.
    """

    dtype: Literal["float32", "float16"] | None = None
    quantize: Literal["int8"] | None = None
    scale: Literal["tensor", "row"] = "tensor"
    align: int | None = None
    fold_bias: bool = False
    order: tuple[tuple[int, int], ...] = ()


def convert(
    source: str | Path,
    out: str | Path,
    conversion: Conversion | None = None,
    progress: Progress | None = None,
) -> Path:
    """Write the experts and routers of `source` to `out`, an expert at a time.

    source : a checkpoint folder, a ``.colibri`` or a ``.cbi`` file.   out : by its ending.
    progress : called with experts done and in all.
    Raises InputError for options that do not fit together or experts with biases that are not to be
    folded, FormatError for a bad source. Nothing is left behind on an error.
    """
    out, conversion = Path(out), conversion or Conversion()
    _check_options(out, conversion)
    with open_experts(source) as opened:
        experts = _folded(opened, conversion)
        counted = experts.expert if progress is None else _counted(experts, progress)
        if out.suffix == ".colibri":
            header = _colibri_header(experts.sizes, conversion)
            write_colibri(out, header, experts.router, counted)
        else:
            _write_cbi(out, experts, counted, conversion)
    return out


def read_order(path: str | Path) -> tuple[tuple[int, int], ...]:
    """A JSON file ``[[layer, expert], …]``, the first slot's first; InputError where it is not."""
    try:
        pairs = json.loads(Path(path).read_text(encoding="utf-8"))
        return tuple((_whole(layer), _whole(expert)) for layer, expert in pairs)
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise InputError(
            "the order cannot be read",
            path=path,
            expected="JSON: [[layer, expert], ...]",
            found=str(error),
        ) from error


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} is no whole number")
    return value


class _Folding:
    """A checkpoint's experts with their biases folded; sizes grow by one."""

    def __init__(self, source: CheckpointExperts) -> None:
        self.source = source
        old = source.sizes
        self.sizes = Sizes(
            old.num_layers, old.num_experts, old.top_k, old.hidden_size + 1,
            old.intermediate_size + 1,
        )  # fmt: skip

    def router(self, layer: int) -> Array:
        bias = self.source.router_bias(layer)
        row = np.zeros(self.sizes.num_experts) if bias is None else bias
        return np.vstack([self.source.router(layer), row])

    def router_bias(self, layer: int) -> Array | None:
        return None

    def expert(self, layer: int, expert: int) -> ExpertWeights:
        return fold(self.source.expert(layer, expert))


Convertible = ExpertSource | _Folding


def _folded(source: ExpertSource, conversion: Conversion) -> Convertible:
    biased = source.checkpoint.expert_bias_names() if isinstance(source, CheckpointExperts) else []
    if not (biased and isinstance(source, CheckpointExperts)):
        if conversion.fold_bias:
            raise InputError(
                "there are no expert biases to fold",
                expected="a checkpoint whose experts have biases",
                hint="leave --fold-bias out",
            )
        return source
    if not conversion.fold_bias:
        raise InputError(
            "the experts have biases, which the container cannot hold",
            expected="experts without biases",
            found=", ".join(biased) + " and those of the other layers",
            hint="--fold-bias puts them into one more row and column of each matrix",
        )
    return _Folding(source)


def _check_options(out: Path, conversion: Conversion) -> None:
    if out.suffix not in SUFFIXES:
        raise InputError(
            "the output's ending says what to write",
            expected=" or ".join(SUFFIXES),
            found=out.name,
        )
    colibri = out.suffix == ".colibri"
    only_cbi = {"--quantize": conversion.quantize, "--align": conversion.align,
                "--order": conversion.order}  # fmt: skip
    for option, value in only_cbi.items():
        if colibri and value:
            raise InputError(f"{option} is for .cbi alone", expected=".cbi", found=out.name)
    if not colibri and conversion.dtype == "float16":
        raise InputError(
            ".cbi holds float32 or int8", expected="float32 or --quantize int8", found="float16"
        )


def _colibri_header(sizes: Sizes, conversion: Conversion) -> ColibriHeader:
    return ColibriHeader(**vars(sizes), dtype_code=CODES[conversion.dtype or "float32"])


def _write_cbi(
    out: Path,
    experts: Convertible,
    expert: Callable[[int, int], ExpertWeights],
    conversion: Conversion,
) -> None:
    by_row = conversion.scale == "row"
    biased = experts.router_bias(0) is not None
    header = plan(
        **vars(experts.sizes),
        dtype_code=INT8 if conversion.quantize else FLOAT32,
        scale_granularity=PER_ROW if conversion.quantize and by_row else PER_TENSOR,
        alignment=conversion.align,
        has_bias=biased,
    )

    def stored(layer: int, index: int) -> Stored:
        weights = expert(layer, index)
        return quantize_expert(weights, by_row) if conversion.quantize else weights

    def bias(layer: int) -> Array:
        found = experts.router_bias(layer)
        return np.zeros(header.num_experts, np.float32) if found is None else found

    slots = _slots(header, conversion.order)
    write_cbi(
        out, header, experts.router, stored, router_bias=bias if biased else None, slots=slots
    )


def _slots(header: CbiHeader, order: tuple[tuple[int, int], ...]) -> NDArray[np.int32]:
    """[L, E] int32, the slot of each expert: those of `order` first, then the rest in turn."""
    everyone = [
        (layer, expert)
        for layer in range(header.num_layers)
        for expert in range(header.num_experts)
    ]
    unknown = set(order) - set(everyone)
    if unknown or len(set(order)) != len(order):
        raise InputError(
            "the order names an expert twice, or one that is not there",
            expected=f"layers 0 to {header.num_layers - 1}, experts 0 to {header.num_experts - 1}",
            found=sorted(unknown) or "a pair twice",
        )
    first = set(order)
    slots = np.empty((header.num_layers, header.num_experts), np.int32)
    for slot, pair in enumerate([*order, *(pair for pair in everyone if pair not in first)]):
        slots[pair] = slot
    return slots


def _counted(experts: Convertible, progress: Progress) -> Callable[[int, int], ExpertWeights]:
    total = experts.sizes.num_layers * experts.sizes.num_experts
    done = 0

    def expert(layer: int, index: int) -> ExpertWeights:
        nonlocal done
        weights = experts.expert(layer, index)
        done += 1
        progress(done, total)
        return weights

    return expert
