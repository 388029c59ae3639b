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


def rewrite_shared(tokens: Tokens, i: int, scope: str, counter: int) -> int:
    """Turns the variables into references into the block's shared memory."""
    begin, end = start(tokens, i), statement_end(tokens, i)
    place = i
    words, align = without_attributes(tokens, begin, end)
    is_extern = any(tokens.text[w] == "extern" for w in words)
    dropped = {"extern", "static", "__shared__", "__device__", "inline"}
    words = [w for w in words if not (tokens.kind[w] in ("word",) and tokens.text[w] in dropped)]
    words = [w for w in words if tokens.kind[w] != "string"]
    if any(tokens.text[w] == "=" for w in words):
        raise RewriteError(
            f"{locate(tokens, place)}: error: a __shared__ variable cannot be initialised"
        )
    parts = split_commas(tokens, words)
    head, first = split_declarator(tokens, parts[0])
    spec = " ".join(tokens.text[w] for w in head)
    lines = [f"typedef {spec} simt_spec{counter};"]
    renames = []
    base = counter
    for declarator in [first, *parts[1:]]:
        before, name, after = around_name(tokens, declarator)
        if not name:
            raise RewriteError(f"{locate(tokens, place)}: error: cannot read this __shared__ line")
        kind = f"simt_type{counter}"
        lines.append(f"typedef simt_spec{base} {before} {kind} {after};")
        value = f"::simt::dynamic_shared<{kind}>()"
        if not is_extern:
            least = f" > {align} ? alignof({kind}) : {align}" if align else ""
            lines.append(
                f"static __attribute__((used)) ::simt::Slot simt_slot{counter} = "
                f"{{~0u, sizeof({kind}), alignof({kind}){least}}};"
            )
            value = f"::simt::shared_variable<{kind}>(simt_slot{counter})"
        if scope == "block" and "volatile" in spec.split() and after.count("[") == 1:
            # An array of volatile elements keeps the lanes in step, as pointers to them do.
            plain = f"std::remove_cv_t<std::remove_extent_t<{kind}>>"
            lines.append(f"::simt::VolatilePointer<{plain}> {name}({value});")
        elif scope == "block":
            lines.append(f"{kind} &{name} = {value};")
        else:
            lines.append(f"static inline {kind} &simt_ref{counter}() {{ return {value}; }}")
            renames.append((name, f"(simt_ref{counter}())"))
        counter += 1
    tokens.blank(begin, end)
    tokens.inserted[end] = " ".join(lines)
    for name, ref in renames:
        _rename(tokens, end + 1, name, ref)
    return counter


def _rename(tokens: Tokens, begin: int, name: str, to: str) -> None:
    for i in range(begin, len(tokens.text)):
        if tokens.text[i] == name and tokens.kind[i] == "word":
            before = tokens.previous(i)
            if before < 0 or tokens.text[before] not in (".", "->", "::"):
                tokens.text[i] = to
