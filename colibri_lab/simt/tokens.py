"""Preprocessed CUDA C++ as tokens, with what belongs to the user's own files told apart."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<word>[A-Za-z_$]\w*)
  | (?P<number>\.?\d(?:[eEpP][+-]|'?[\w.])*)
  | (?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
  | (?P<mark><<<|>>>|::|->|[^\s\w])
    """,
    re.X,
)
_RAW = re.compile(r'"([^\s()\\]{0,16})\(')
_MARKER = re.compile(r'^# (\d+) "((?:[^"\\]|\\.)*)"((?: \d)*)[^\n]*$', re.M)
_DIRECTIVE = re.compile(r"^[ \t]*#[^\n]*$", re.M)
_RAW_PREFIXES = {"R", "LR", "uR", "UR", "u8R"}
_CLOSERS = {"(": ")", "[": "]", "{": "}"}


@dataclass
class Tokens:
    """Texts that joined give the source back; kinds: space, word, number, string, mark, opaque."""

    text: list[str] = field(default_factory=list)
    kind: list[str] = field(default_factory=list)
    inserted: dict[int, str] = field(default_factory=dict)  # after a token

    def add(self, kind: str, text: str) -> None:
        self.text.append(text)
        self.kind.append(kind)

    def next(self, i: int) -> int:
        """The next token after i that is code, or the length."""
        i += 1
        while i < len(self.text) and self.kind[i] in ("space", "opaque"):
            i += 1
        return i

    def previous(self, i: int) -> int:
        """The last token before i that is code, or -1."""
        i -= 1
        while i >= 0 and self.kind[i] in ("space", "opaque"):
            i -= 1
        return i

    def close(self, i: int) -> int:
        """The bracket that closes the one at i."""
        opener, closer, depth = self.text[i], _CLOSERS[self.text[i]], 0
        for j in range(i, len(self.text)):
            if self.kind[j] != "mark":
                continue
            depth += (self.text[j] == opener) - (self.text[j] == closer)
            if depth == 0:
                return j
        return len(self.text) - 1

    def close_angle(self, i: int) -> int:
        """The `>` that closes the template brackets opened at i."""
        depth = 0
        j = i
        while j < len(self.text):
            text = self.text[j]
            if self.kind[j] == "mark":
                if text in _CLOSERS:
                    j = self.close(j)
                elif text == "<":
                    depth += 1
                elif text in (">", ">>>"):
                    depth -= len(text)
                    if depth <= 0:
                        return j
            j = self.next(j)
        return len(self.text) - 1

    def code(self, begin: int, end: int) -> list[int]:
        """The indices of tokens from begin up to, not with, end that are code."""
        return [i for i in range(begin, end) if self.kind[i] not in ("space", "opaque")]

    def join(self, begin: int, end: int) -> str:
        """The code of a range on one line."""
        return " ".join(self.text[i] for i in self.code(begin, end))

    def source(self) -> str:
        """All of it, with what was inserted."""
        return "".join(t + self.inserted.get(i, "") for i, t in enumerate(self.text))

    def blank(self, begin: int, end: int) -> None:
        """Takes a range's code out, and leaves its lines as they are."""
        for i in self.code(begin, end):
            self.text[i] = "\n" * self.text[i].count("\n")


def split(source: str) -> Tokens:
    """Tokens of what `-E` printed. System headers and directives are opaque."""
    tokens = Tokens()
    at, is_system = 0, False
    own: set[str] = set()
    for marker in _MARKER.finditer(source):
        _add(tokens, source[at : marker.start()], is_system)
        # The compiler also marks so what a system header's macro expands to in the user's file.
        is_system = "3" in marker[3].split() and marker[2] not in own
        if not is_system:
            own.add(marker[2])
        at = marker.start()
    _add(tokens, source[at:], is_system)
    return tokens


def _add(tokens: Tokens, text: str, is_system: bool) -> None:
    if is_system:
        tokens.add("opaque", text)
        return
    at = 0
    for directive in _DIRECTIVE.finditer(text):
        _lex(tokens, text[at : directive.start()])
        tokens.add("opaque", directive[0])
        at = directive.end()
    _lex(tokens, text[at:])


def _lex(tokens: Tokens, text: str) -> None:
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            tokens.add("mark", text[at])
            at += 1
            continue
        is_raw = text[at] == '"' and tokens.text and tokens.text[-1] in _RAW_PREFIXES
        opened = _RAW.match(text, at) if is_raw else None
        if opened:
            close = f'){opened[1]}"'
            end = text.find(close, opened.end())
            end = len(text) if end < 0 else end + len(close)
            tokens.add("string", text[at:end])
            at = end
            continue
        tokens.add(match.lastgroup or "mark", match[0])
        at = match.end()


def locate(tokens: Tokens, index: int) -> str:
    """`file:line` of a token, by the markers before it."""
    before = "".join(tokens.text[:index])
    markers = list(_MARKER.finditer(before))
    last = markers[-1] if markers else None
    if last is None:
        return f"source:{before.count(chr(10)) + 1}"
    return f"{last[2]}:{int(last[1]) + before.count(chr(10), last.end()) - 1}"
