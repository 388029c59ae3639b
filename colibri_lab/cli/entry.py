"""Finding the command, and turning whatever it raises into words and an exit status.

Exit status 0: done.  1: the work failed, or a check found something.  2: wrong usage or input.
130: stopped by Ctrl-C.  143: by SIGTERM.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from .. import __version__
from ..errors import (
    CheckFailed,
    ColibriError,
    DeviceUnavailable,
    InputError,
    Interrupted,
    WorkFailed,
)
from .output import abandon_stdout, open_streams, print_error
from .signals import interrupted_by_sigterm

DONE, FAILED, USAGE = 0, 1, 2
PATH_ERRORS = (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError)
DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EIO}
SIGNALLED = 128  # plus the signal's number, as shells have it
COMMANDS = {
    "doctor": "what this machine can do, and what is missing",
    "inspect": "what a checkpoint, a container or a run folder holds",
    "convert": "experts of a checkpoint to .colibri or .cbi, and between the two",
    "infer": "generate text",
    "sweep": "measure a grid of settings into a run folder",
    "report": "a self-contained report of a run, a trace, or a notebook with parameters",
    "trace": "routing traces: import, describe, replay against cache policies",
    "kernels": "the CUDA kernels: check them, and what they do to memory",
    "bench": "long replays against named peers, in one run",
    "lab": "JupyterLab in the notebooks",
}
# What the extra `report` brings; the other commands do without.
OPTIONAL = {"jinja2", "matplotlib", "nbclient", "nbconvert", "nbformat", "pandas", "pyarrow"}


class UsageError(InputError):
    """The command line cannot be understood."""


class Parser(argparse.ArgumentParser):
    """An argparse parser whose complaints are the project's own errors."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.register("type", Path, _path)  # for arguments with type=Path

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, hint=f"{self.prog} --help")


def _path(text: str) -> Path:
    if not text:  # Path("") is the current folder
        raise argparse.ArgumentTypeError("the path is empty")
    return Path(text)


def build_parser() -> Parser:
    """The parser with every command; their modules import what they need when they run."""
    parser = Parser(
        prog="colibri-lab",
        allow_abbrev=False,
        description="A workbench for mixture-of-experts inference.",
        epilog="Example: colibri-lab infer --model data/tiny-moe --prompt 'In the beginning'",
    )
    parser.add_argument("--version", action="version", version=f"colibri-lab {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, summary in COMMANDS.items():
        module = importlib.import_module(f".{name}", __package__)
        command = commands.add_parser(
            name,
            help=summary,
            description=module.__doc__,
            epilog=module.EXAMPLE,
            allow_abbrev=False,  # an abbreviated --json would be missed where an error is told
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    as_json = "--json" in arguments
    open_streams()
    try:
        with interrupted_by_sigterm() as received:
            try:
                options = build_parser().parse_args(arguments)
                status = int(options.run(options) or DONE)
            except (KeyboardInterrupt, Exception) as error:
                status = _tell(error, as_json, received)
        sys.stdout.flush()  # not at exit, where nobody handles that the reader has gone
        return status
    except BrokenPipeError:
        abandon_stdout()
    except OSError as error:  # standard output itself cannot be written
        abandon_stdout()
        print_error(error, as_json=False)
    return FAILED


def _tell(error: Exception | KeyboardInterrupt, as_json: bool, received: Sequence[int] = ()) -> int:
    """Say what went wrong; the exit status.  What nobody foresaw keeps its traceback.

    received : the signals that stopped the work; Ctrl-C's where there is none.
    """
    if isinstance(error, BrokenPipeError):
        raise error
    if isinstance(error, KeyboardInterrupt | Interrupted):
        stopped = error if isinstance(error, Interrupted) else Interrupted("stopped")
        print(stopped, file=sys.stderr)
        if as_json:
            print_error(stopped, as_json)
        return SIGNALLED + (received[0] if received else signal.SIGINT)
    if isinstance(error, ModuleNotFoundError) and (error.name or "").split(".")[0] in OPTIONAL:
        error = _missing(error)
    if not isinstance(error, ColibriError | OSError | MemoryError):
        if not as_json:
            raise error
        traceback.print_exception(error)
    print_error(error, as_json)
    return USAGE if _is_input(error) else FAILED


def _missing(error: ModuleNotFoundError) -> ColibriError:
    return DeviceUnavailable(
        f"{error.name} is not installed", hint="pip install 'colibri-lab[report]', or make setup"
    )


def _is_input(error: Any) -> bool:
    """Whether the error is about what was given, not about how the work went."""
    if isinstance(error, PATH_ERRORS):
        return True
    cause = error.__cause__
    if isinstance(cause, OSError) and cause.errno in DISK_ERRORS:
        return False
    return isinstance(error, ColibriError) and not isinstance(
        error, CheckFailed | DeviceUnavailable | WorkFailed
    )
