"""Held-out texts as token sequences, one text a domain."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError

FOLDER_NAME = "heldout"
Texts = Mapping[str, Any] | Sequence[str | Path] | str | Path


@dataclass(frozen=True)
class Corpus:
    """domains : name -> [n] int64 token ids, in a fixed order.   digest : of names and ids."""

    domains: Mapping[str, NDArray[np.int64]]
    digest: str

    @property
    def num_bytes(self) -> int:
        """Bytes of the token ids."""
        return sum(ids.nbytes for ids in self.domains.values())

    def windows(self, count: int, length: int, first: int = 0) -> tuple[list[str], Any]:
        """`count` sequences that do not overlap, the domains taking turns.

        first : windows of each domain to leave out.
        Returns their domains and [count, length] int64; InputError where the texts are too short.
        """
        names = list(self.domains)
        chosen = [names[index % len(names)] for index in range(count)]
        rows = []
        for index, name in enumerate(chosen):
            start = (first + index // len(names)) * length
            row = self.domains[name][start : start + length]
            if len(row) < length:
                raise InputError(
                    f"the text of domain {name} is too short",
                    expected=f"{start + length} tokens for {count} sequences of {length}",
                    found=f"{len(self.domains[name])} tokens",
                    hint="give longer texts, a smaller batch_size or fewer repeats",
                )
            rows.append(row)
        return chosen, np.stack(rows)

    def longest_window(self, count: int) -> int:
        """The longest `length` that `windows` can give for this many sequences."""
        names = list(self.domains)
        return min(
            len(self.domains[name]) // -(-(count - turn) // len(names))
            for turn, name in enumerate(names[:count])
        )


def read_corpus(texts: Texts, tokenizer: Any) -> Corpus:
    """Read and encode texts.

    texts : a folder of .txt files, paths, or name -> text or token ids.
    """
    sources = _sources(texts)
    if not sources:
        raise InputError(
            "there are no texts", expected="a .txt file or more, one a domain", found=str(texts)
        )
    domains = {name: _encode(name, source, tokenizer) for name, source in sources.items()}
    digest = hashlib.sha256()
    for name, ids in domains.items():
        digest.update(f"{name}:{len(ids)}:".encode())
        digest.update(ids.tobytes())
    return Corpus(domains, digest.hexdigest()[:16])


def default_texts(model_path: str) -> Path | None:
    """The folder of held-out texts that lies beside a model, if there is one."""
    if not model_path:
        return None
    folder = Path(model_path).resolve().parent / FOLDER_NAME
    return folder if folder.is_dir() else None


def _sources(texts: Texts) -> dict[str, Any]:
    if isinstance(texts, Mapping):
        return dict(texts)
    if isinstance(texts, str | Path):
        folder = Path(texts)
        paths = sorted(folder.glob("*.txt")) if folder.is_dir() else [folder]
    else:
        paths = [Path(path) for path in texts]
    return {path.stem: path for path in paths}


def _encode(name: str, source: Any, tokenizer: Any) -> NDArray[np.int64]:
    if isinstance(source, Path):
        source = _read(source)
    if not isinstance(source, str):
        return np.asarray(source, np.int64)
    if tokenizer is None:
        raise InputError(
            "the model has no tokenizer, so it cannot read text",
            expected="tokenizer.json in the checkpoint folder",
            found=f"a text for domain {name}",
            hint='give token ids in place of text, or inputs="random"',
        )
    return np.asarray(tokenizer.encode(source), np.int64)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            "a text cannot be read", path=path, expected="a UTF-8 text file", found=str(error)
        ) from error
