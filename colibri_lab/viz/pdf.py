"""Printing a page to PDF, with a browser that is installed."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from ..atomic import atomic_writer
from ..errors import DeviceUnavailable, WorkFailed

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--no-pdf-header-footer",
)  # fmt: skip
SECONDS = 120


def html_to_pdf(page: str, out: Path) -> None:
    """Print a self-contained page.

    Raises DeviceUnavailable where no Chromium is found, WorkFailed where it does not print.
    """
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise DeviceUnavailable(
            "a PDF is printed by Chromium, and none is installed",
            expected=f"one of {', '.join(BROWSERS)} on the path",
            hint="install it (Debian: apt install chromium), or write .html and print from there",
        )
    pdf = _print(browser, page, out)
    with atomic_writer(out) as file:
        file.write(pdf)


def _print(browser: str, page: str, out: Path) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        source, printed = Path(folder) / "report.html", Path(folder) / "report.pdf"
        source.write_text(page, encoding="utf-8")
        command = [browser, *FLAGS, f"--user-data-dir={folder}/profile",
                   f"--print-to-pdf={printed}", source.as_uri()]  # fmt: skip
        try:
            done = subprocess.run(command, capture_output=True, timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired as error:
            raise WorkFailed(
                "the browser did not print the page", path=out, found=f"nothing in {SECONDS} s"
            ) from error
        if done.returncode or not printed.is_file():
            found = done.stderr.decode(errors="replace").strip()[-400:]
            raise WorkFailed("the browser did not print the page", path=out, found=found)
        return printed.read_bytes()
