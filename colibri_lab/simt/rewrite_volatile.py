"""Pointers to volatile become pointers whose accesses keep a warp's lanes in step.

Code from before Volta reduces in a warp by `volatile` alone, without __syncwarp, and still works on
today's GPUs, because lanes that run together run in step. Here each such access waits for the
lanes that can reach it.
"""

from __future__ import annotations

from .tokens import Tokens

_QUALIFIERS = ("const", "__restrict__", "__restrict")


def rewrite_volatile(tokens: Tokens, i: int) -> None:
    """Rewrites the local variable or parameter whose type begins with `volatile` at i, if any."""
    star = _pointer(tokens, i)
    if star is None:
        return
    name = tokens.next(star)
    while tokens.text[name] in _QUALIFIERS:
        name = tokens.next(name)
    if tokens.kind[name] != "word":
        return
    before, after = tokens.text[tokens.previous(i)], tokens.text[tokens.next(name)]
    pointee = tokens.join(i + 1, star)
    if before in (";", "{", "}") and after == "=" and not _has_more(tokens, name):
        tokens.blank(i, star + 1)
        tokens.text[i] = f"::simt::VolatilePointer<{pointee}> "
    elif before in ("(", ",") and after in (",", ")"):
        _parameter(tokens, i, name, pointee)


def _pointer(tokens: Tokens, i: int) -> int | None:
    """The `*` of `volatile type *`."""
    j = tokens.next(i)
    while j < len(tokens.text):
        text = tokens.text[j]
        if text == "*":
            return j if tokens.previous(j) != i else None
        if text == "<":
            j = tokens.close_angle(j)
        elif tokens.kind[j] != "word" and text != "::":
            return None
        j = tokens.next(j)
    return None


def _has_more(tokens: Tokens, i: int) -> bool:
    """Whether the declaration of one variable goes on with another."""
    j = tokens.next(i)
    while j < len(tokens.text) and tokens.text[j] != ";":
        if tokens.kind[j] == "mark" and tokens.text[j] in ("(", "[", "{"):
            j = tokens.close(j)
        elif tokens.text[j] == ",":
            return True
        j = tokens.next(j)
    return False


def _parameter(tokens: Tokens, i: int, name: int, pointee: str) -> None:
    """Renames a parameter, and declares its old name at the head of the function's body."""
    opened, depth = tokens.previous(i), 0
    while opened >= 0 and not (tokens.text[opened] == "(" and depth == 0):
        depth += (tokens.text[opened] == ")") - (tokens.text[opened] == "(")
        if tokens.text[opened] in (";", "{", "}"):
            return
        opened = tokens.previous(opened)
    body = tokens.next(tokens.close(opened))
    if body >= len(tokens.text) or tokens.text[body] != "{" or _is_kernel(tokens, opened):
        return
    word = tokens.text[name]
    tokens.text[name] = f"simt_raw_{word}"
    local = f"::simt::VolatilePointer<{pointee}> {word}(simt_raw_{word});"
    tokens.inserted[body] = tokens.inserted.get(body, "") + local


def _is_kernel(tokens: Tokens, opened: int) -> bool:
    j = opened
    while j >= 0 and tokens.text[j] not in (";", "{", "}"):
        if tokens.text[j] == "__global__":
            return True
        j = tokens.previous(j)
    return False
