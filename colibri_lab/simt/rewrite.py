"""CUDA C++, preprocessed, becomes C++ that the host's compiler takes; lines stay where they are."""

from __future__ import annotations

from dataclasses import dataclass, field

from .declarations import (
    around_name,
    parameters,
    split_commas,
    split_declarator,
    start,
    statement_end,
    without_attributes,
)
from .rewrite_indices import rewrite_indices
from .rewrite_kernels import rewrite_kernel
from .rewrite_ptx import rewrite_assembly
from .rewrite_shared import rewrite_shared
from .rewrite_volatile import rewrite_volatile
from .tokens import Tokens, split

_INTERESTING = {
    "__global__",
    "__device__",
    "__constant__",
    "__shared__",
    "__managed__",
    "<<<",
    "asm",
    "__asm__",
    "__asm",
    "__launch_bounds__",
}


@dataclass
class Rewritten:
    """The new source, and the names of variables that the image lists."""

    source: str
    globals: list[str] = field(default_factory=list)
    constants: list[str] = field(default_factory=list)


def rewrite(source: str) -> Rewritten:
    """Rewrites what `-E` printed.

    source : str, with line markers; CUDA's own words must not have been expanded
    """
    tokens = split(source)
    rewrite_indices(tokens)
    scopes = _scopes(tokens)
    result = Rewritten("")
    counter = 0
    for i, word in enumerate(tokens.text):
        if word == "volatile" and tokens.kind[i] == "word":
            rewrite_volatile(tokens, i)
    for i in range(len(tokens.text)):
        word = tokens.text[i]
        if word not in _INTERESTING or tokens.kind[i] in ("opaque", "space", "string"):
            continue
        if word == "__shared__":
            counter = rewrite_shared(tokens, i, scopes[i], counter)
        elif word == "__global__":
            rewrite_kernel(tokens, i)
        elif word == "__launch_bounds__":
            tokens.blank(i, tokens.close(tokens.next(i)) + 1)
        elif word == "<<<":
            tokens.blank(i, _launch_end(tokens, i) + 1)
        elif word in ("asm", "__asm__", "__asm"):
            rewrite_assembly(tokens, i)
        else:
            _variable_or_function(tokens, i, scopes[i], result)
    result.source = tokens.source()
    return result


# ---- scopes -----------------------------------------------------------------------------------


def _scopes(tokens: Tokens) -> dict[int, str]:
    """For each word of interest: the scope it stands in, `namespace`, `class` or `block`."""
    stack = ["namespace"]
    found = {}
    for i, text in enumerate(tokens.text):
        if tokens.kind[i] == "mark":
            if text == "{":
                stack.append(_scope_of(tokens, i, stack[-1]))
            elif text == "}" and len(stack) > 1:
                stack.pop()
        if text in _INTERESTING:
            found[i] = stack[-1]
    return found


def _scope_of(tokens: Tokens, brace: int, outer: str) -> str:
    if outer == "block":
        return "block"
    head = [tokens.text[i] for i in tokens.code(start(tokens, brace), brace)]
    if "namespace" in head:
        _name_anonymous(tokens, brace, head)
        return "namespace"
    if head[:1] == ["extern"] and len(head) == 2:
        return "namespace"
    if ")" in head and "=" not in head:
        return "block"
    return "class" if {"struct", "class", "union", "enum"} & set(head) else "block"


def _name_anonymous(tokens: Tokens, brace: int, head: list[str]) -> None:
    # What has internal linkage has no symbol that the image's table could name.
    if head[-1] == "namespace":
        word = tokens.previous(brace)
        outer = "" if head[0] == "inline" else "inline "
        tokens.text[word] = f"{outer}namespace simt_unnamed"


# ---- variables and launches ----------------------------------------------------------------------


def _variable_or_function(tokens: Tokens, i: int, scope: str, result: Rewritten) -> None:
    """Drops __device__ and its kin; a variable is kept in the object file, and listed."""
    word = tokens.text[i]
    is_variable = (
        scope == "namespace" and parameters(tokens, i) is None and not _is_lambda(tokens, i)
    )
    if not is_variable:
        tokens.text[i] = ""
        return
    begin, end = start(tokens, i), statement_end(tokens, i)
    head = [tokens.text[w] for w in tokens.code(begin, end)]
    tokens.text[i] = "" if "extern" in head else "__attribute__((used))"
    words, _ = without_attributes(tokens, begin, end)
    for w in words:
        if tokens.text[w] == "static":
            tokens.text[w] = ""
    dropped = {"", "static", "extern", "inline", "__device__", "__constant__", "__managed__"}
    words = [w for w in words if tokens.text[w] not in dropped]
    parts = [_before_value(tokens, part) for part in split_commas(tokens, words)]
    _, first = split_declarator(tokens, parts[0])
    for declarator in [first, *parts[1:]]:
        name = around_name(tokens, declarator)[1]
        result.globals.append(name)
        if word == "__constant__":
            result.constants.append(name)


def _before_value(tokens: Tokens, words: list[int]) -> list[int]:
    """A declaration up to its `=` or `{`; the braces of an unnamed struct belong to its type."""
    depth, is_type = 0, False
    for at, w in enumerate(words):
        text = tokens.text[w]
        is_type |= text in ("struct", "union", "class", "enum")
        if depth == 0 and (text == "=" or (text == "{" and not is_type)):
            return words[:at]
        depth += (text == "{") - (text == "}")
        is_type &= text != "}" or depth > 0
    return words


def _is_lambda(tokens: Tokens, i: int) -> bool:
    return tokens.text[tokens.previous(i)] == "]"


def _launch_end(tokens: Tokens, i: int) -> int:
    depth = 0
    while i < len(tokens.text):
        if tokens.kind[i] == "mark":
            depth += (tokens.text[i] == "<<<") - (tokens.text[i] == ">>>")
            if depth == 0:
                return i
        i = tokens.next(i)
    return i - 1
