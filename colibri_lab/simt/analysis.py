"""Every memory access of kernels, by source line: what it cost, and what is wrong with it.

    from colibri_lab import simt

    with simt.observe(counters=True, memory=True, races=True) as seen:
        module = SourceModule(source)  # compiled in here: instrumented
        ...
    print(seen)

Counters and checks are those of the emulated device. They are no times.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from . import analysis_native as native
from . import gpus
from .analysis_flags import CHOICES, ENVIRONMENT, chosen
from .analysis_records import Finding, Kernel, parse
from .driver import current_gpu

if TYPE_CHECKING:
    import pandas as pd

    from .analysis_html import Listing
    from .analysis_picture import Steps


class FoundError(Exception):
    """A kernel did something wrong; the text says what, and where."""

    def __init__(self, findings: list[Finding]) -> None:
        super().__init__("\n".join(str(one) for one in findings))
        self.findings = findings


class Seen:
    """What was observed; complete once the `with` block has ended, readable while it runs."""

    def __init__(self, checks: tuple[str, ...]) -> None:
        self.checks = checks
        self._text: str | None = None

    def close(self) -> None:
        self._text = native.results()

    @cached_property
    def _closed(self) -> list[Kernel]:
        return parse(self._text or "[]")

    @property
    def kernels(self) -> list[Kernel]:
        """In the order in which they were launched first."""
        return parse(native.results()) if self._text is None else self._closed

    def kernel(self, name: str | None = None) -> Kernel:
        """The kernel of that name; without a name, the only one.

        raises : KeyError where there is none, or where there are several and no name.
        """
        found = [one for one in self.kernels if name in (None, one.name)]
        if len(found) != 1:
            names = ", ".join(one.name for one in self.kernels) or "none"
            raise KeyError(f"expected one kernel {name or ''}; observed: {names}")
        return found[0]

    @property
    def findings(self) -> list[Finding]:
        return [one for kernel in self.kernels for one in kernel.findings]

    @property
    def errors(self) -> list[Finding]:
        """Findings, without the races in which both sides write the same value."""
        return [one for one in self.findings if one.is_error]

    def check(self) -> None:
        """raises : FoundError with all errors, where there is any."""
        if self.errors:
            raise FoundError(self.errors)

    def totals(self, name: str | None = None) -> dict[str, Any]:
        """Bytes, sectors, conflicts, operations of one kernel over all its launches."""
        from .analysis_table import totals

        return totals(self.kernel(name))

    def lines(self, name: str | None = None) -> pd.DataFrame:
        """One row a source line and operation, of one kernel or of all."""
        from .analysis_table import lines

        return lines([self.kernel(name)] if name else self.kernels)

    def listing(self, name: str | None = None) -> Listing:
        """The source with its counters beside it, for a notebook."""
        from .analysis_html import Listing

        return Listing(self.kernel(name))

    def steps(self, name: str | None = None) -> Steps:
        """The first requests of block 0 as a picture, for a notebook (see `observe(steps=...)`)."""
        from .analysis_picture import Steps

        return Steps(self.kernel(name).steps)

    def __str__(self) -> str:
        from .analysis_text import text_of

        return text_of(self)


def observe_always() -> Seen:
    """What the environment's COLIBRI_SIMT_ANALYSIS switched on from the start."""
    return Seen(chosen())


@contextmanager
def observe(
    *,
    counters: bool = True,
    memory: bool = True,
    races: bool = True,
    gpu: str | None = None,
    l2_bytes: int | None = None,
    steps: int = 0,
) -> Iterator[Seen]:
    """Observes the kernels that are compiled and launched within.

    counters : sectors, bank conflicts, L2, bytes, arithmetic, active lanes
    memory : bounds, use after free, alignment, reads of what nothing wrote
    races : data races within and between blocks
    gpu : the GPU whose L2 is modelled; None: the emulated device's
    l2_bytes : another size for the model
    steps : how many requests of block 0 to keep, lane by lane, of each kernel's first launch

    Modules compiled outside stay as they are, and are not seen. Buffers allocated outside count as
    written.
    """
    wanted = {"counters": counters, "memory": memory, "races": races}
    checks = tuple(name for name in CHOICES if wanted[name])
    before_names, before = os.environ.get(ENVIRONMENT), native.mode()
    native.clear()
    native.set_steps(steps)
    chosen = gpus.find(gpu) if gpu else current_gpu()
    native.set_l2(*gpus.l2_of(chosen, l2_bytes))
    os.environ[ENVIRONMENT] = ",".join(checks)
    _forget_in_pycuda()
    native.set_mode(checks)
    seen = Seen(checks)
    try:
        yield seen
    finally:
        _synchronize()
        seen.close()
        native.set_mode(before)
        if before_names is None:
            del os.environ[ENVIRONMENT]
        else:
            os.environ[ENVIRONMENT] = before_names
        _forget_in_pycuda()


def _forget_in_pycuda() -> None:
    """Lets PyCUDA compile anew what it compiled when other checks were chosen.

    It asks for the compiler's version once, which is a part of its cache's key and which ours
    changes with the checks; and it keeps the kernels behind gpuarray a context.
    """
    version = getattr(sys.modules.get("pycuda.compiler"), "get_nvcc_version", None)
    functions = [getattr(version, "__wrapped__", None)]
    functions += getattr(
        sys.modules.get("pycuda.tools"), "context_dependent_memoized_functions", []
    )
    for function in functions:
        for kept in ("_memoize_dic", "_pycuda_ctx_dep_memoize_dic"):
            getattr(function, kept, {}).clear()


def _synchronize() -> None:
    """Waits for launches still queued, where there is a context."""
    native.library().cuCtxSynchronize()
