"""__global__ functions get an anchor, by which the compiler emits how the host calls them."""

from __future__ import annotations

from .declarations import RewriteError, parameters, split_commas, start
from .tokens import Tokens, locate


def rewrite_kernel(tokens: Tokens, i: int) -> None:
    """Gives a kernel's body an anchor, by which the compiler emits how the host calls it."""
    begin = start(tokens, i)
    opened = parameters(tokens, i)
    if opened is None:
        raise RewriteError(f"{locate(tokens, i)}: error: __global__ is not before a function")
    bounds = _bounds(tokens, begin, opened)
    closed = tokens.close(opened)
    body = tokens.next(closed)
    while body < len(tokens.text) and tokens.text[body] not in ("{", ";"):
        body = tokens.next(body)
    is_instantiation = tokens.text[begin] == "template" and tokens.text[tokens.next(begin)] != "<"
    for w in tokens.code(begin, opened):
        if tokens.text[w] == "static":
            tokens.text[w] = ""
    tokens.text[i] = "" if is_instantiation else "__attribute__((noinline))"
    if body >= len(tokens.text) or tokens.text[body] == ";":
        return
    name = _kernel_name(tokens, i, opened) + _template_arguments(tokens, begin)
    types = ", ".join(_parameter_types(tokens, opened, closed))
    anchor = f"(void)&::simt::Kernel<void({types}), &{name}, {bounds}>::entry;"
    tokens.inserted[body] = anchor + tokens.inserted.get(body, "")


def _bounds(tokens: Tokens, begin: int, end: int) -> str:
    """The first argument of __launch_bounds__, or 0; takes all of it out."""
    bounds = "0"
    for w in tokens.code(begin, end):
        if tokens.text[w] != "__launch_bounds__":
            continue
        opened = tokens.next(w)
        closed = tokens.close(opened)
        inside = tokens.code(opened + 1, closed)
        parts = split_commas(tokens, inside)
        bounds = "(" + " ".join(tokens.text[v] for v in parts[0]) + ")"
        tokens.blank(w, closed + 1)
    return bounds


def _kernel_name(tokens: Tokens, i: int, opened: int) -> str:
    """The kernel's name, with the arguments of an explicit specialisation."""
    j = tokens.previous(opened)
    if tokens.text[j] != ">":
        return tokens.text[j]
    words = tokens.code(i, opened)
    depth = 0
    for n in range(len(words) - 1, -1, -1):
        depth += (tokens.text[words[n]] == ">") - (tokens.text[words[n]] == "<")
        if depth == 0:
            return " ".join(tokens.text[w] for w in words[n - 1 :])
    return tokens.text[j]


def _template_arguments(tokens: Tokens, begin: int) -> str:
    """`<T, n, Rest...>` for a template's own parameters; names those that have none."""
    if tokens.text[begin] != "template":
        return ""
    opened = tokens.next(begin)
    closed = tokens.close_angle(opened)
    inside = tokens.code(opened + 1, closed)
    if not inside:
        return ""
    names = [
        _template_argument(tokens, part, n)
        for n, part in enumerate(_split_template(tokens, inside))
    ]
    return "<" + ", ".join(names) + ">"


def _template_argument(tokens: Tokens, part: list[int], n: int) -> str:
    texts = [tokens.text[w] for w in part]
    head = texts[: texts.index("=")] if "=" in texts else texts
    dots = "..." if head.count(".") >= 3 else ""
    for at in range(len(head) - 2):  # T (*function)(T)
        if head[at] == "(" and head[at + 1] in ("*", "&") and head[at + 2] != ")":
            return head[at + 2]
    last = part[len(head) - 1]
    if tokens.kind[last] == "word" and len(head) > 1:
        return head[-1] + dots
    tokens.text[last] += f" simt_unnamed{n}"
    return f"simt_unnamed{n}{dots}"


def _has_dots(tokens: Tokens, words: list[int]) -> bool:
    return [tokens.text[w] for w in words].count(".") >= 3


def _split_template(tokens: Tokens, words: list[int]) -> list[list[int]]:
    parts: list[list[int]] = [[]]
    depth = 0
    for w in words:
        text = tokens.text[w]
        depth += (text in ("(", "[", "{", "<")) - (text in (")", "]", "}", ">"))
        if text == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(w)
    return parts


def _parameter_types(tokens: Tokens, opened: int, closed: int) -> list[str]:
    """The type of each parameter, by its name; names those that have none."""
    inside = tokens.code(opened + 1, closed)
    if not inside or tokens.join(opened + 1, closed) == "void":
        return []
    return [_parameter_type(tokens, part, n) for n, part in enumerate(split_commas(tokens, inside))]


def _parameter_type(tokens: Tokens, part: list[int], n: int) -> str:
    for at, w in enumerate(part):
        if tokens.text[w] == "=":
            part = part[:at]
            break
    while tokens.text[part[-1]] == "]":  # float a[]
        at = len(part) - 1
        while tokens.text[part[at]] != "[":
            at -= 1
        part = part[:at]
    last = part[-1]
    dots = "..." if _has_dots(tokens, part) else ""
    if tokens.text[last] == ")":  # float (*rows)[4]
        last = next(w for w in part if tokens.text[tokens.previous(w)] in ("*", "&"))
    elif tokens.kind[last] != "word" or len(part) == 1 or tokens.text[last] in _TYPE_WORDS:
        tokens.text[last] += f" simt_parameter{n}"
        return f"::simt::Plain<decltype(simt_parameter{n})>{dots}"
    return f"::simt::Plain<decltype({tokens.text[last]})>{dots}"


_TYPE_WORDS = {"int", "float", "double", "char", "short", "long", "unsigned", "bool", "const"}
