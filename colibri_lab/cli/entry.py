"""Finding the command, and turning whatever it raises into words and an exit status.

Exit status 0: done.  1: the work failed, or a check found something.  2: wrong usage or input.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from .. import __version__
from ..errors import CheckFailed, ColibriError, DeviceUnavailable, InputError, Interrupted
from .output import print_error

DONE, FAILED, USAGE = 0, 1, 2
INTERRUPTED = 130  # 128 + SIGINT, as shells have it
COMMANDS = {
    "doctor": "what this machine can do, and what is missing",
    "inspect": "what a checkpoint, a container or a run folder holds",
    "convert": "experts of a checkpoint to .colibri or .cbi, and between the two",
    "infer": "generate text",
    "sweep": "measure a grid of settings into a run folder",
    "report": "a self-contained report of a run, a trace, or a notebook with parameters",
    "trace": "routing traces: import, describe, replay against cache policies",
    "lab": "JupyterLab in the notebooks",
}
# What the extra `report` brings; the other commands do without.
OPTIONAL = {"jinja2", "matplotlib", "nbclient", "nbconvert", "nbformat", "pandas", "pyarrow"}


class UsageError(InputError):
    """The command line cannot be understood."""


class Parser(argparse.ArgumentParser):
    """An argparse parser whose complaints are the project's own errors."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, hint=f"{self.prog} --help")


def build_parser() -> Parser:
    """The parser with every command; their modules import what they need when they run."""
    parser = Parser(
        prog="colibri-lab",
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
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    as_json = "--json" in arguments
    try:
        options = build_parser().parse_args(arguments)
        return _run(options)
    except (KeyboardInterrupt, Interrupted) as error:
        print(str(error) or "stopped", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output has gone; Python would complain once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in OPTIONAL:
            raise
        print_error(_missing(error), as_json)
        return FAILED
    except (ColibriError, OSError, MemoryError) as error:
        print_error(error, as_json)
        return USAGE if _is_input(error) else FAILED


def _run(options: argparse.Namespace) -> int:
    status = options.run(options) or DONE
    sys.stdout.flush()  # not at exit, where nobody handles that the reader has gone
    return int(status)


def _missing(error: ModuleNotFoundError) -> ColibriError:
    return DeviceUnavailable(
        f"{error.name} is not installed", hint="pip install 'colibri-lab[report]', or make setup"
    )


def _is_input(error: Any) -> bool:
    """Whether the error is about what was given, not about how the work went."""
    return isinstance(error, ColibriError) and not isinstance(
        error, CheckFailed | DeviceUnavailable
    )
