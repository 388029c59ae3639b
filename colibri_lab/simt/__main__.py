"""`python -m colibri_lab.simt`: run a script on the emulated device, or build PyCUDA."""

from __future__ import annotations

import argparse
import os
import runpy
import sys
from pathlib import Path

_BUILD = "build-pycuda"
_EPILOG = f"`{_BUILD}` builds PyCUDA instead: see `python -m colibri_lab.simt {_BUILD} --help`."


def _parser() -> argparse.ArgumentParser:
    from .analysis_flags import CHOICES
    from .gpus import DEFAULT, GPUS

    parser = argparse.ArgumentParser(
        prog="python -m colibri_lab.simt",
        description="Run a Python script whose PyCUDA finds an emulated GPU.",
        epilog=_EPILOG,
    )
    parser.add_argument(
        "--gpu", help=f"what to take after: {', '.join(GPUS)} (COLIBRI_SIMT_GPU, else {DEFAULT})"
    )
    parser.add_argument("--seed", type=int, help="order of queued work; 0: as late as it may run")
    parser.add_argument(
        "--analysis", metavar="CHECKS", help=f"what to observe: all, or some of {','.join(CHOICES)}"
    )
    parser.add_argument(
        "--even-with-gpu", action="store_true", help="emulate where a real driver is present too"
    )
    parser.add_argument("-m", dest="is_module", action="store_true", help="SCRIPT is a module")
    parser.add_argument("script", metavar="SCRIPT")
    parser.add_argument("arguments", metavar="ARGS", nargs=argparse.REMAINDER)
    return parser


def _choose_analysis(text: str, parser: argparse.ArgumentParser) -> None:
    from .analysis_flags import CHOICES, ENVIRONMENT

    names = list(CHOICES) if text == "all" else text.split(",")
    unknown = [name for name in names if name not in CHOICES]
    if unknown:
        parser.error(f"--analysis: {', '.join(CHOICES)} or all expected, found {unknown[0]!r}")
    os.environ[ENVIRONMENT] = ",".join(names)


def _run(script: str, arguments: list[str], is_module: bool) -> None:
    sys.argv = [script, *arguments]
    if is_module:
        sys.path.insert(0, "")
        runpy.run_module(script, run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, str(Path(script).resolve().parent))
        runpy.run_path(script, run_name="__main__")


def _report() -> None:
    """What was observed, on the error stream: the script's own output stays its own."""
    from .analysis import observe_always

    print(observe_always(), file=sys.stderr)


def main(argv: list[str]) -> int:
    if argv[:1] == [_BUILD]:
        from .pycuda_build import main as build

        return build(argv[1:])
    from .build import BuildError
    from .compiler import CompileError
    from .driver import enable

    parser = _parser()
    options = parser.parse_args(argv)
    if options.analysis is not None:
        _choose_analysis(options.analysis, parser)
    if not options.is_module and not Path(options.script).exists():
        parser.error(f"{options.script}: no such file")
    try:
        is_on = enable(options.gpu, seed=options.seed, even_with_gpu=options.even_with_gpu)
    except (ValueError, BuildError, CompileError) as error:
        parser.error(str(error))
    try:
        _run(options.script, options.arguments, options.is_module)
    finally:
        if is_on and options.analysis is not None:
            _report()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
