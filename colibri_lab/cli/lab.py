"""Open JupyterLab in the project's notebooks."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from pathlib import Path

from ..errors import DeviceUnavailable, InputError

EXAMPLE = "Example: colibri-lab lab --port 8890"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=int, default=8888, metavar="N")
    parser.add_argument("--no-browser", action="store_true", help="print the address alone")
    parser.add_argument("--allow-root", action="store_true", help="run as root, as in a container")


def run(options: argparse.Namespace) -> None:
    if importlib.util.find_spec("jupyterlab") is None:
        raise DeviceUnavailable(
            "JupyterLab is not installed", hint="pip install 'colibri-lab[lab]', or make setup"
        )
    if not 1 <= options.port <= 65535:
        raise InputError("the port is out of range", expected="1 to 65535", found=options.port)
    folder = notebooks()
    command = [sys.executable, "-m", "jupyterlab", f"--port={options.port}"]
    command += ["--no-browser"] if options.no_browser else []
    command += ["--allow-root"] if options.allow_root else []
    os.chdir(folder)
    os.execv(sys.executable, command)  # Ctrl-C, signals and the exit status are JupyterLab's


def notebooks() -> Path:
    """The notebooks' folder: here, or beside the package in its checkout."""
    for folder in (Path.cwd() / "notebooks", Path(__file__).parents[2] / "notebooks"):
        if folder.is_dir():
            return folder
    raise InputError(
        "the notebooks are not here",
        expected="a folder named notebooks in the current one",
        found=str(Path.cwd()),
        hint="run this in a checkout of the project",
    )
