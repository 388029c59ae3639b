"""threadIdx, blockIdx, blockDim and gridDim become calls, but where the source redeclares them."""

from __future__ import annotations

from .tokens import Tokens

_CALLS = {
    "threadIdx": "(::simt::thread_idx())",
    "blockIdx": "(::simt::block_idx())",
    "blockDim": "(::simt::block_dim())",
    "gridDim": "(::simt::grid_dim())",
}
# Words that may stand before a use; any other word before the name declares it.
_BEFORE_USE = {"return", "case", "else", "do", "sizeof", "throw", "new", "delete", "co_return"}


def rewrite_indices(tokens: Tokens) -> None:
    """Replaces every use of CUDA's own."""
    braces = brackets = 0
    hidden: dict[str, int] = {}  # redeclared names, and the depth of braces where that ends
    parameters: set[str] = set()  # of a function whose body may follow
    for i, text in enumerate(tokens.text):
        if tokens.kind[i] == "mark":
            brackets += (text == "(") - (text == ")")
            braces += (text == "{") - (text == "}")
            if text == "{":
                hidden.update(dict.fromkeys(parameters, braces))
            elif text == "}":
                hidden = {name: depth for name, depth in hidden.items() if depth <= braces}
            if text in ("{", ";"):
                parameters = set()
        elif tokens.kind[i] == "word" and text in _CALLS:
            if _declares(tokens, i):
                if brackets:
                    parameters.add(text)
                else:
                    hidden[text] = braces
            elif text not in hidden and tokens.text[tokens.previous(i)] not in (".", "->", "::"):
                tokens.text[i] = _CALLS[text]


def _declares(tokens: Tokens, i: int) -> bool:
    before, after = tokens.previous(i), tokens.next(i)
    if before >= 0 and tokens.kind[before] == "word" and tokens.text[before] not in _BEFORE_USE:
        return True
    return after < len(tokens.text) and tokens.text[after] in ("(", "{", "=")
