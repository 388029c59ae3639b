"""Floating-point operations, counted in the machine code that the host's compiler made of a kernel.

Each basic block of an instrumented image begins with a call that the analysis counts; the block's
instructions are read once with objdump. An addition, subtraction, multiplication, division, square
root, minimum or maximum is one operation, a fused multiply-add two, a call of a mathematical
function one (apart). It is exact for that machine code, which nvcc's may differ from: an expression
that one of the compilers folds, or a function that it computes in another way, counts differently.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from . import analysis_native as native
from .analysis_records import Kernel, Place, parse_place

BLOCK_CALL = "__sanitizer_cov_trace_pc"
_LANES = {"x": 16, "y": 32, "z": 64}
_X86 = re.compile(r"v?(add|sub|mul|div|sqrt|max|min|fn?m(?:add|sub)(?:132|213|231))(s|p)(s|d|h)$")
_ARM = re.compile(r"(fadd|fsub|fmul|fnmul|fdiv|fsqrt|fmax|fmin|fmaxnm|fminnm|fn?m(?:add|sub))$")
_CALL = re.compile(r"(?:call|bl)q?\s.*<([^@>+]+)(?:@\w+)?>")
_FUNCTION = re.compile(
    r"(?:__)?(?:exp|exp2|exp10|expm1|log|log2|log10|log1p|sin|cos|tan|asin|acos|atan|atan2|sinh|cosh"
    r"|tanh|asinh|acosh|atanh|pow|cbrt|hypot|erf|erfc|tgamma|lgamma|fmod|remainder|sincos)f?"
    r"(?:_finite)?$"
)


@dataclass(frozen=True)
class Operation:
    """An instruction that computes: its block's address, its own, and what it does for a thread."""

    block: int
    address: int
    float32: int = 0
    float64: int = 0
    functions: int = 0


@dataclass(frozen=True)
class Arithmetic:
    """Operations of one source line, summed over threads."""

    place: Place
    float32: int
    float64: int
    functions: int

    @property
    def flops(self) -> int:
        return self.float32 + self.float64


def _x86(name: str, operands: str) -> tuple[int, int]:
    """Operations of one instruction in float32 (and float16) and in float64."""
    found = _X86.match(name)
    if not found:
        return 0, 0
    what, packed, kind = found.groups()
    width = 8 if kind == "d" else 2 if kind == "h" else 4
    register = re.search(r"%([xyz])mm", operands)
    count = _LANES[register.group(1)] // width if packed == "p" and register else 1
    count *= 2 if "fm" in what or "fnm" in what else 1
    return (0, count) if kind == "d" else (count, 0)


def _arm(name: str, operands: str) -> tuple[int, int]:
    if not _ARM.match(name):
        return 0, 0
    count = 2 if name.startswith(("fma", "fms", "fnm")) and name not in _ONE else 1
    vector = re.match(r"v\d+\.(\d)([sdh])", operands)
    if vector:
        count *= int(vector.group(1))
    is_double = operands.startswith("d") or bool(vector and vector.group(2) == "d")
    return (0, count) if is_double else (count, 0)


_ONE = frozenset(("fmax", "fmin", "fmaxnm", "fminnm", "fmul", "fnmul"))


def operations_in(disassembly: str) -> Iterator[Operation]:
    """The computing instructions of an instrumented image, from objdump's text."""
    block, begins = 0, False
    for line in disassembly.splitlines():
        head, _, rest = line.partition(":\t")
        if not rest:
            if line.endswith(">:"):
                block = 0  # another function
            continue
        address = int(head, 16)
        if begins:
            block, begins = address, False
        call = _CALL.match(rest)
        if call:
            begins = call.group(1) == BLOCK_CALL
            if block and _FUNCTION.match(call.group(1)):
                yield Operation(block, address, functions=1)
            continue
        name, operands = (*rest.split(None, 1), "")[:2]
        single, double = _x86(name, operands)
        if not (single or double):
            single, double = _arm(name, operands)
        if block and (single or double):
            yield Operation(block, address, single, double)


@cache
def _operations(path: str, image_number: int) -> tuple[Operation, ...]:
    """image_number : tells images apart that had the same path one after the other."""
    if not Path(path).exists():
        raise RuntimeError(f"image {image_number} is no longer kept: 256 more were observed since")
    tool = shutil.which("objdump") or shutil.which("llvm-objdump")
    if not tool:
        raise RuntimeError("counting arithmetic needs objdump, of binutils or LLVM, on the PATH")
    command = [tool, "-d", "--no-show-raw-insn", path]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return tuple(operations_in(done.stdout))


def arithmetic(kernel: Kernel) -> list[Arithmetic]:
    """Operations by source line, over all launches that counters were on for.

    raises : RuntimeError where there is no objdump.
    """
    threads = {site.address: site.lanes for site in kernel.sites if site.kind == "block"}
    all_operations = _operations(kernel.image_path, kernel.image_number)
    done = [one for one in all_operations if one.block in threads]
    if not done:
        return []
    lines = native.lines(kernel.image_number, [one.address for one in done])
    sums: dict[Place, list[int]] = {}
    for one in done:
        total = sums.setdefault(parse_place(lines.get(one.address, "")), [0, 0, 0])
        for i, count in enumerate((one.float32, one.float64, one.functions)):
            total[i] += count * threads[one.block]
    return [Arithmetic(place, *total) for place, total in sorted(sums.items())]
