"""__shared__ variables become references into the memory of the block that runs."""

from __future__ import annotations

from .declarations import (
    RewriteError,
    around_name,
    split_commas,
    split_declarator,
    start,
    statement_end,
    without_attributes,
)
from .tokens import Tokens, locate

_DROPPED = {"extern", "static", "__shared__", "__device__", "inline"}


def rewrite_shared(tokens: Tokens, i: int, scope: str, counter: int) -> int:
    """Rewrites the declaration that holds token i; returns the next number for names.

    scope : str, `block`, `class` or `namespace`
    """
    begin, end = start(tokens, i), statement_end(tokens, i)
    words, align = without_attributes(tokens, begin, end)
    is_extern = any(tokens.text[w] == "extern" for w in words)
    words = [w for w in words if tokens.text[w] not in _DROPPED and tokens.kind[w] != "string"]
    if any(tokens.text[w] == "=" for w in words):
        raise _error(tokens, i, "a __shared__ variable cannot be initialised")
    parts = split_commas(tokens, words)
    head, first = split_declarator(tokens, parts[0])
    spec = " ".join(tokens.text[w] for w in head)
    base = f"simt_spec{counter}"
    lines = [f"typedef {spec} {base};"]
    for declarator in [first, *parts[1:]]:
        before, name, after = around_name(tokens, declarator)
        if not name:
            raise _error(tokens, i, "cannot read this __shared__ declaration")
        kind = f"simt_type{counter}"
        lines.append(f"typedef {base} {before} {kind} {after};")
        value = f"::simt::dynamic_shared<{kind}>()"
        if not is_extern:
            lines.append(_slot(kind, counter, align))
            value = f"::simt::shared_variable<{kind}>(simt_slot{counter})"
        if scope == "block":
            is_volatile = "volatile" in spec.split() and after.count("[") == 1
            lines.append(_local(kind, name, value, is_volatile))
        else:
            lines.append(f"static inline {kind} &simt_ref{counter}() {{ return {value}; }}")
            _rename(tokens, end + 1, name, f"(simt_ref{counter}())")
        counter += 1
    tokens.blank(begin, end)
    tokens.inserted[end] = " ".join(lines)
    return counter


def _error(tokens: Tokens, i: int, what: str) -> RewriteError:
    return RewriteError(f"{locate(tokens, i)}: error: {what}")


def _slot(kind: str, number: int, align: str) -> str:
    """The record by which the image's layout gives the variable its place."""
    least = f" > {align} ? alignof({kind}) : {align}" if align else ""
    return (
        f"static __attribute__((used)) ::simt::Slot simt_slot{number} = "
        f"{{~0u, sizeof({kind}), alignof({kind}){least}}};"
    )


def _local(kind: str, name: str, value: str, is_volatile_array: bool) -> str:
    if not is_volatile_array:
        return f"{kind} &{name} = {value};"
    # Its elements keep the lanes in step, as those behind pointers to volatile do.
    plain = f"std::remove_cv_t<std::remove_extent_t<{kind}>>"
    return f"::simt::VolatilePointer<{plain}> {name}({value});"


def _rename(tokens: Tokens, begin: int, name: str, to: str) -> None:
    for i in range(begin, len(tokens.text)):
        if tokens.text[i] == name and tokens.kind[i] == "word":
            before = tokens.previous(i)
            if before < 0 or tokens.text[before] not in (".", "->", "::"):
                tokens.text[i] = to
