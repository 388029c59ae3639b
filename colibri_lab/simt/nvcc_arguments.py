"""The part of nvcc's command line that means something without a GPU."""

from __future__ import annotations

import os

_TARGETS = ("cubin", "ptx", "fatbin")
# Options of two words, whose second is of no use here.
_IGNORED_WITH_VALUE = {
    "-code", "--gpu-code", "-Xptxas", "--ptxas-options", "-Xcudafe", "-Xnvlink", "-Xlinker",
    "-maxrregcount", "--maxrregcount", "-ccbin", "--compiler-bindir", "-diag-suppress",
    "--diag-suppress", "-t", "--threads", "-x", "-L", "-l", "-odir", "-keep-dir", "--keep-dir",
    "-lto", "-O",
}  # fmt: skip
_TAKE_VALUE = {
    "-o", "--output-file", "-std", "--std", "-fmad", "--fmad", "-Xcompiler", "--compiler-options",
    "-arch", "--gpu-architecture", "-gencode", "--generate-code",
}  # fmt: skip
_PASSED_WITH_VALUE = {"-I": "-I", "--include-path": "-I", "-D": "-D", "--define-macro": "-D",
                      "-U": "-U", "--undefine-macro": "-U", "-isystem": "-isystem",
                      "--system-include": "-isystem", "-include": "-include",
                      "--pre-include": "-include"}  # fmt: skip
_DEFAULT_ARCH = 75


class Arguments:
    """What to do with which file; no dataclass, whose import would double the command's start."""

    def __init__(self) -> None:
        self.sources: list[str] = []
        self.passed: list[str] = []  # -I, -D, … for the preprocessor
        self.compiler: list[str] = []  # for the compiler
        self.output = ""
        self.target = "cubin"
        self.arch = _DEFAULT_ARCH
        self.std = "17"
        self.shows_version = False
        self.only_preprocesses = False


def parse(argv: list[str]) -> Arguments:
    """Reads nvcc's arguments; what has no meaning on a CPU is passed over."""
    args = Arguments()
    left = _joined(list(argv))
    while left:
        word = left.pop(0)
        name, has_value, value = word.partition("=")
        if word in _PASSED_WITH_VALUE and left:
            args.passed += _passed(_PASSED_WITH_VALUE[word], left.pop(0))
        elif has_value and name in _PASSED_WITH_VALUE and name.startswith("--"):
            args.passed += _passed(_PASSED_WITH_VALUE[name], value)
        elif word[:2] in ("-I", "-D", "-U") and len(word) > 2:
            args.passed.append(word)
        elif not word.startswith("-"):
            args.sources.append(word)
        else:
            _option(args, name, value if has_value else None, left)
    return args


def _joined(argv: list[str]) -> list[str]:
    extra = os.environ.get("NVCC_APPEND_FLAGS", "").split()
    return os.environ.get("NVCC_PREPEND_FLAGS", "").split() + argv + extra


def _passed(flag: str, value: str) -> list[str]:
    return [flag, value] if len(flag) > 2 else [flag + value]


def _option(args: Arguments, name: str, value: str | None, left: list[str]) -> None:
    plain = name.lstrip("-")
    if plain in ("version", "V"):
        args.shows_version = True
    elif plain in ("preprocess", "E"):
        args.only_preprocesses = True
    elif plain in _TARGETS:
        args.target = plain
    elif name in _TAKE_VALUE:
        _take(args, plain, value if value is not None else left.pop(0) if left else "")
    elif name in ("-G", "--device-debug"):
        args.compiler += ["-O1", "-g"]
    elif name in _IGNORED_WITH_VALUE and value is None and left:
        left.pop(0)


def _take(args: Arguments, plain: str, value: str) -> None:
    if plain in ("o", "output-file"):
        args.output = value
    elif plain == "std":
        args.std = value.removeprefix("c++").removeprefix("gnu++")
    elif plain == "fmad":
        args.compiler += ["-ffp-contract=off"] if value == "false" else []
    elif plain in ("Xcompiler", "compiler-options"):
        args.compiler += [f for f in value.split(",") if f.startswith(("-f", "-O", "-g"))]
    else:
        args.arch = _arch(value, args.arch)


def _arch(text: str, default: int) -> int:
    digits = "".join(c for c in text.rpartition("_")[2] if c.isdigit())
    return int(digits) if digits else default
