"""The catalogue: every kernel and variant, its twin, cases, tolerances and launch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from . import cases, expert_cases, geometry, twins
from .case import Case
from .geometry import Geometry, Launch, Sizes, threads_of

FOLDER = Path(__file__).parent
DTYPES = {"float32": np.float32, "float16": np.float16}
MACROS = {"float32": ("-DSTORAGE=float",), "float16": ("-DSTORAGE=half", "-DTENSOR_CORES")}


@dataclass(frozen=True)
class Tolerance:
    """How far a result may be from the float64 twin: atol + rtol * abs(twin)."""

    atol: float
    rtol: float


EXACT = Tolerance(0.0, 0.0)
# Sums are in float32 whatever is stored; float16 results are rounded once more.
SUMS = {"float32": Tolerance(2e-5, 2e-5), "float16": Tolerance(2e-3, 2e-3)}
FLOAT32_ONLY = {"float32": Tolerance(1e-6, 2e-6)}
WHOLE = {"float32": EXACT}


@dataclass(frozen=True)
class Kernel:
    """One kernel, in one variant.

    file : its source, without ending.   entry : its name there.   twin : computes the same.
    tolerance : dtype -> how near; its keys are the dtypes that the kernel is compiled for.
    cases : dtype -> cases.   rows : the array whose length is the launch's rows, where it has any.
    """

    name: str
    variant: str
    file: str
    twin: Callable[..., None]
    tolerance: Mapping[str, Tolerance]
    cases: Callable[[Any], Iterator[Case]]
    geometry: Geometry
    rows: str = ""

    @property
    def entry(self) -> str:
        return f"{self.name}_{self.variant}" if self.variant else self.name

    @property
    def path(self) -> Path:
        return FOLDER / f"{self.file}.cu"

    def launch(self, case: Case, capability: str = "default", threads: int = 0) -> Launch:
        """Grid and block.   threads : a block, in place of the table's."""
        return self.geometry(self.sizes(case), threads or threads_of(self.entry, capability))

    def sizes(self, case: Case) -> Sizes:
        """The case's whole numbers; its rows and experts where arrays tell them."""
        found = case.sizes
        if self.rows:
            found["num_rows"] = len(case.arguments[self.rows])
        if "expert_offsets" in case.arguments and "num_experts" not in found:
            found["num_experts"] = len(case.arguments["expert_offsets"]) - 1
        return found


def _kernels() -> Iterator[Kernel]:
    g, c, e, t = geometry, cases, expert_cases, twins
    shape: Geometry
    for variant, shape in (
        ("naive", g.route_topk_naive), ("warp", g.route_topk_warp), ("block", g.route_topk_block),
    ):  # fmt: skip
        yield Kernel(
            "route_topk", variant, "route", t.route_topk, FLOAT32_ONLY, c.route_topk, shape
        )
    yield Kernel(
        "route_fused", "", "route_fused", t.route_fused,
        FLOAT32_ONLY, c.route_fused, g.route_fused,
    )  # fmt: skip
    for name, shape in (("dispatch_count", g.dispatch_count), ("dispatch_scan", g.one_block)):
        yield Kernel(name, "", "dispatch", getattr(t, name), WHOLE, getattr(c, name), shape)
    for variant in ("stable", "atomic"):
        entry = f"dispatch_scatter_{variant}"
        yield Kernel(
            "dispatch_scatter", variant, "dispatch", getattr(t, entry), WHOLE, getattr(c, entry),
            getattr(g, entry),
        )  # fmt: skip
    yield Kernel(
        "expert_gemm", "naive", "expert_gemm", t.expert_gemm, SUMS, e.expert_gemm,
        g.outputs_by_row("outer"), "y",
    )  # fmt: skip
    yield Kernel(
        "expert_gemm", "tiled", "expert_gemm", t.expert_gemm, SUMS, e.expert_gemm,
        g.tiles("outer"), "y",
    )  # fmt: skip
    yield Kernel(
        "expert_gemm", "wmma", "expert_gemm", t.expert_gemm, {"float16": SUMS["float16"]},
        e.expert_gemm_wmma, g.tiles("outer", 16, (32, 1, 1)), "y",
    )  # fmt: skip
    yield Kernel("silu_mul", "", "swiglu", t.silu_mul, SUMS, e.silu_mul, g.silu_mul)
    for variant, shape in (
        ("naive", g.outputs_by_row("intermediate_size")), ("tiled", g.tiles("intermediate_size")),
    ):  # fmt: skip
        yield Kernel(
            "fused_swiglu", variant, "swiglu", t.fused_swiglu, SUMS, e.fused_swiglu, shape, "h"
        )
    yield Kernel(
        "fused_expert", "", "fused_expert", t.fused_expert,
        dict.fromkeys(DTYPES, SUMS["float32"]), e.fused_expert,
        g.tiles("intermediate_size"), "y",
    )  # fmt: skip
    f32 = dict.fromkeys(DTYPES, SUMS["float32"])
    yield Kernel(
        "aggregate", "atomic", "aggregate", t.aggregate_atomic, f32, e.aggregate_atomic,
        g.columns_by_row, "y",
    )  # fmt: skip
    yield Kernel(
        "aggregate", "gather", "aggregate", t.aggregate_gather, f32, e.aggregate_gather,
        g.columns_by_row, "output",
    )  # fmt: skip
    yield Kernel(
        "aggregate_invert", "", "aggregate", t.aggregate_invert, WHOLE, e.aggregate_invert, g.rows,
        "sorted_token_ids",
    )  # fmt: skip
    yield Kernel("seq_offsets", "", "input", t.seq_offsets, WHOLE, c.seq_offsets, g.one_block)
    yield Kernel(
        "pack_input", "", "input", t.pack_input, dict.fromkeys(DTYPES, EXACT), c.pack_input,
        g.pack_input, "padded",
    )  # fmt: skip


CATALOG: tuple[Kernel, ...] = tuple(_kernels())


def find(names: Sequence[str]) -> list[Kernel]:
    """Kernels by name, entry or file; all of them for none. InputError lists the known ones."""
    known = {kernel.entry for kernel in CATALOG} | {kernel.name for kernel in CATALOG}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise InputError(
            "kernel is not known", expected=", ".join(sorted(known)), found=", ".join(unknown)
        )
    return [k for k in CATALOG if not names or k.entry in names or k.name in names]
