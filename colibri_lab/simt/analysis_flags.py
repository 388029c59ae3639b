"""How a kernel is compiled so that the analysis sees it."""

from __future__ import annotations

import os

ENVIRONMENT = "COLIBRI_SIMT_ANALYSIS"  # "counters,memory,races" or a part of it; empty: off
CHOICES = ("counters", "memory", "races")

# -fsanitize=thread calls the analysis at each access, trace-pc at each basic block (its runtime is
# not linked: libcuda.so.1 has these functions). The rest keeps the machine code near the source:
# a float4 stays one access of 16 bytes, blocks stay in the order of the lines, and no loop is
# vectorised, so that a warp's lanes can be matched and the arithmetic counted. Loops keep their
# test in one place and jumps their aim: lanes then meet again where the source has them meet, which
# tests/simt/test_grouping.py holds against random programs.
_COMMON = ("-g", "-O2", "-fsanitize=thread", "-fno-omit-frame-pointer")
_GCC = (
    "-fsanitize-coverage=trace-pc",
    "--param=tsan-distinguish-volatile=1",
    "-fno-tree-sra",
    "-fno-tree-vectorize",
    "-fno-tree-loop-distribute-patterns",
    "-fno-thread-jumps",
    "-fno-tree-ch",
    "-fno-tree-tail-merge",
    "-fno-crossjumping",
    "-fno-reorder-blocks",
    "-fno-reorder-blocks-and-partition",
)
_CLANG = (
    "-O1",
    "-gdwarf-4",
    "-fsanitize-coverage=bb,no-prune,trace-pc",
    "-mllvm",
    "-tsan-distinguish-volatile",
    "-mllvm",
    "-tsan-instrument-read-before-write",
    "-fno-vectorize",
    "-fno-slp-vectorize",
)


def chosen() -> tuple[str, ...]:
    """The checks that the environment names, in the order of CHOICES."""
    names = {name.strip() for name in os.environ.get(ENVIRONMENT, "").split(",")}
    return tuple(name for name in CHOICES if name in names)


def instrument_flags(is_clang: bool) -> tuple[str, ...]:
    """What to add to the compiler's command, after its own -O, when any check is chosen.

    The link must not name -fsanitize: it would bring the sanitizer's own runtime.
    """
    return _COMMON + (_CLANG if is_clang else _GCC)
