"""The tokenizer of a checkpoint, through its own library."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import FormatError


@dataclass(frozen=True)
class Tokenizer:
    """encode : text -> ids, without special tokens.   decode : ids -> text."""

    inner: Any

    def encode(self, text: str) -> list[int]:
        return list(self.inner.encode(text, add_special_tokens=False).ids)

    def decode(self, token_ids: Any) -> str:
        return str(self.inner.decode([int(token) for token in token_ids]))

    def tokens(self, token_ids: Any) -> list[str]:
        """The text of each token apart, for labels; bytes that are no whole character show as �."""
        return [self.decode([token]) for token in token_ids]


def load_tokenizer(path: Path) -> Tokenizer | None:
    """The checkpoint's tokenizer.json; None where it has none, FormatError where it is corrupt."""
    file = path / "tokenizer.json"
    if not file.is_file():
        return None
    from tokenizers import Tokenizer as Library

    try:
        return Tokenizer(Library.from_file(str(file)))
    except Exception as error:  # the library raises plain Exception
        raise FormatError(
            "the tokenizer cannot be read",
            path=file,
            expected="a tokenizer.json of the tokenizers library",
            found=str(error),
        ) from error
