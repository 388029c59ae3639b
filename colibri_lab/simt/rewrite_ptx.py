"""Inline PTX: the few instructions that kernels read special registers with; else a refusal."""

from __future__ import annotations

import re

from .declarations import statement_end
from .tokens import Tokens

_REGISTERS = {
    "laneid": "::simt::lane()",
    "warpid": "::simt::linear_thread() / 32",
    "smid": "0u",
    "lanemask_eq": "1u << ::simt::lane()",
    "lanemask_lt": "(1u << ::simt::lane()) - 1",
    "lanemask_le": "(2u << ::simt::lane()) - 1",
    "lanemask_gt": "~((2u << ::simt::lane()) - 1)",
    "lanemask_ge": "~((1u << ::simt::lane()) - 1)",
    "clock": "(unsigned)::simt_clock()",
    "clock64": "::simt_clock()",
    "globaltimer": "::simt_clock()",
    "tid.x": "::simt::thread_idx().x",
    "ntid.x": "::simt::block_dim().x",
    "ctaid.x": "::simt::block_idx().x",
    "nctaid.x": "::simt::grid_dim().x",
}
_PLAIN = {
    "": "",
    "bar.sync 0": "__syncthreads()",
    "barrier.sync 0": "__syncthreads()",
    "membar.cta": "__threadfence_block()",
    "membar.gl": "__threadfence()",
    "membar.sys": "__threadfence_system()",
    "trap": "__trap()",
}
_MOVE = re.compile(r"mov\.[usb](?:32|64) %0, %?%([\w.]+)")


def rewrite_assembly(tokens: Tokens, i: int) -> None:
    """Replaces the asm statement at i; a launch that meets unknown PTX fails, and says so."""
    end = statement_end(tokens, i)
    words = tokens.code(i, end)
    text = _template(tokens, words)
    move = _MOVE.fullmatch(text)
    if text in _PLAIN:
        call = _PLAIN[text]
    elif move and move[1] in _REGISTERS:
        call = f"({_output(tokens, words)}) = {_REGISTERS[move[1]]}"
    else:
        shown = text.replace("%", "").replace("\\", "")
        call = f'simt_refuse("inline PTX ({shown}) is not emulated")'
    tokens.blank(i, end)
    tokens.text[i] = call


def _template(tokens: Tokens, words: list[int]) -> str:
    """The instruction, without its last semicolon; several stay in one text."""
    strings = []
    for w in words[1:]:
        if tokens.kind[w] == "string":
            strings.append(tokens.text[w][1:-1])
        elif tokens.text[w] in (":", "::", ")"):
            break
    text = re.sub(r"(?:\s|\\n|\\t)+", " ", "".join(strings)).strip()
    return text.removesuffix(";").strip()


def _output(tokens: Tokens, words: list[int]) -> str:
    """The expression in the brackets of the first operand."""
    for n, w in enumerate(words):
        if tokens.text[w] == ":" and n + 2 < len(words):
            opened = words[n + 2]
            return tokens.join(opened + 1, tokens.close(opened))
    return ""
