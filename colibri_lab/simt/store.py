"""What is made once and kept for the user: named by digests, written atomically."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


def cache_folder() -> Path:
    """Where images and everything else made once are kept for the user."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "colibri_lab" / "simt"


def digest(*parts: str | bytes) -> str:
    made = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        made.update(len(data).to_bytes(8, "little") + data)
    return made.hexdigest()


def write(path: Path, data: bytes) -> None:
    """Atomically; a cache that cannot be written is done without."""
    import tempfile  # here and below: what a hit in the cache does without

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as draft:
            draft.write(data)
        Path(draft.name).replace(path)
    except OSError:
        pass


def read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _parts(preprocessed: str) -> Iterator[tuple[str, str]]:
    """What `-E` printed for files that are not the system's: each file's name, and a part of it."""
    import re

    own: set[str] = set()
    for part in re.split(r"^(?=# \d+ \")", preprocessed, flags=re.M):
        head = part.partition("\n")[0].split('"')
        if len(head) < 3:
            continue
        # The compiler also marks as the system's what its macros expand to in the user's files.
        if "3" not in head[-1].split() or head[1] in own:
            own.add(head[1])
            yield head[1], part


def own_part(preprocessed: str) -> str:
    """What `-E` printed for the user's own files."""
    return "".join(part for _, part in _parts(preprocessed))


def dependencies(preprocessed: str, source: str) -> dict[str, str]:
    """The user's own files that a source includes, with digests of their content."""
    names = {name for name, _ in _parts(preprocessed)} - {source}
    contents = {str(Path(name).resolve()): read(Path(name)) for name in sorted(names)}
    return {path: digest(content) for path, content in contents.items() if content is not None}
