"""What makes two cells the same measurement."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from .. import __version__

# Parts of the package that cannot change what a cell measures.
_OUTSIDE = {"cli", "viz"}


@cache
def code_version() -> str:
    """The package's version and a hash of the source that measurements run through."""
    package = Path(__file__).resolve().parents[1]
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package)
        if name.parts[0].removesuffix(".py") not in _OUTSIDE:
            digest.update(f"{name.as_posix()}\n".encode())
            digest.update(path.read_bytes())
    return f"{__version__}+{digest.hexdigest()[:12]}"


def short_hash(contents: Mapping[str, Any]) -> str:
    """12 hexadecimal digits that stand for JSON-able contents."""
    text = json.dumps(contents, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:12]
