"""Progress bars on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def bar(unit: str) -> Iterator[Callable[[int, int], None]]:
    """A bar with the time left; the callback takes how many are done and how many there are.

    Nothing is drawn where standard error is no terminal, or the work takes under a second.
    """
    from tqdm import tqdm

    with tqdm(unit=unit, delay=1.0, disable=not sys.stderr.isatty(), file=sys.stderr) as shown:

        def update(done: int, total: int) -> None:
            shown.total = total
            shown.update(done - shown.n)

        yield update
