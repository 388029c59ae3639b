"""Finding one's way in a C++ declaration's tokens."""

from __future__ import annotations

import re

from .tokens import Tokens

_NOT_NAMES = {"__attribute__", "__launch_bounds__", "alignas", "decltype", "__declspec", "noexcept"}
_STARTS = {";", "{", "}", ":"}


class RewriteError(Exception):
    """Something that CUDA C++ does not allow, with its file and line."""


def start(tokens: Tokens, i: int) -> int:
    """The first token of the declaration that holds token i."""
    begin, j = i, tokens.previous(i)
    while j >= 0:
        if tokens.kind[j] == "mark" and tokens.text[j] in _STARTS:
            break
        begin, j = j, tokens.previous(j)
    return begin


def statement_end(tokens: Tokens, i: int) -> int:
    while i < len(tokens.text) and not (tokens.kind[i] == "mark" and tokens.text[i] == ";"):
        if tokens.kind[i] == "mark" and tokens.text[i] in "([{":
            i = tokens.close(i)
        i = tokens.next(i)
    return i


def parameters(tokens: Tokens, i: int) -> int | None:
    """The bracket that opens the parameters of the function declared at i, if it is one."""
    j = tokens.next(i)
    while j < len(tokens.text):
        text = tokens.text[j]
        if tokens.kind[j] == "mark":
            if text in (";", "{", "="):
                return None
            if text == "<":
                j = tokens.close_angle(j)
            elif text == "[":
                j = tokens.close(j)
            elif text == "(":
                before = tokens.previous(j)
                if tokens.text[before] in _NOT_NAMES:
                    j = tokens.close(j)
                elif (
                    tokens.text[tokens.next(j)] in ("*", "&") and tokens.text[before] != "operator"
                ):
                    return None if _is_pointer_declarator(tokens, j) else j
                else:
                    return j
        j = tokens.next(j)
    return None


def _is_pointer_declarator(tokens: Tokens, opened: int) -> bool:
    return tokens.text[tokens.next(tokens.close(opened))] in ("(", "[")


def without_attributes(tokens: Tokens, begin: int, end: int) -> tuple[list[int], str]:
    """A declaration's tokens without attributes and alignas, and the alignment that they gave."""
    kept, align, i = [], "", begin
    while i < end:
        if tokens.kind[i] == "word" and tokens.text[i] in ("__attribute__", "alignas", "__align__"):
            opened = tokens.next(i)
            closed = tokens.close(opened)
            inside = tokens.join(opened, closed + 1)
            asked = re.search(r"aligned(?:__)? \( (.*?) \) \) \)$", inside)
            if tokens.text[i] != "__attribute__":
                align = inside
            elif asked:
                align = f"({asked[1]})"
            i = tokens.next(closed)
        else:
            kept.append(i)
            i = tokens.next(i)
    return [w for w in kept if tokens.kind[w] not in ("space", "opaque")], align


def split_commas(tokens: Tokens, words: list[int]) -> list[list[int]]:
    """Splits at commas outside all brackets; outside () [] {}, `<` opens one."""
    parts: list[list[int]] = [[]]
    depth = angle = 0
    for w in words:
        text = tokens.text[w] if tokens.kind[w] == "mark" else ""
        if text and text in "([{":
            depth += 1
        elif text and text in ")]}":
            depth -= 1
        elif depth == 0 and text == "<":
            angle += 1
        elif depth == 0 and angle and text in (">", ">>>"):
            angle -= len(text)
        if text == "," and depth == 0 and angle == 0:
            parts.append([])
        else:
            parts[-1].append(w)
    return parts


def split_declarator(tokens: Tokens, words: list[int]) -> tuple[list[int], list[int]]:
    """A declaration's type, and its first declarator: pointers, name, dimensions."""
    at = len(words)
    while at > 0 and tokens.text[words[at - 1]] in ("]", ")"):  # name[n], (*name)[n], (*name)(int)
        at = _opening(tokens, words, at - 1)
    if at == len(words) or tokens.text[words[at]] == "[":
        at -= 1
    pointer = [tokens.text[w] for w in words[:at]]
    while at > 0 and tokens.text[words[at - 1]] in ("*", "&", "const", "volatile", "__restrict__"):
        if "*" not in pointer[:at]:
            break
        at -= 1
    return words[:at], words[at:]


def _opening(tokens: Tokens, words: list[int], at: int) -> int:
    """The bracket that opens what closes at words[at]."""
    depth = 0
    while at >= 0:
        depth += (tokens.text[words[at]] in ("]", ")")) - (tokens.text[words[at]] in ("[", "("))
        if depth == 0:
            return at
        at -= 1
    return 0


def around_name(tokens: Tokens, words: list[int]) -> tuple[str, str, str]:
    qualifiers = {"const", "volatile", "__restrict__", "__restrict"}
    for n, w in enumerate(words):
        if tokens.kind[w] == "word" and tokens.text[w] not in qualifiers:
            before = " ".join(tokens.text[v] for v in words[:n])
            return before, tokens.text[w], " ".join(tokens.text[v] for v in words[n + 1 :])
    return "", "", ""
