"""Printing a page to PDF, with a browser that is installed."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from ..errors import ColibriError, DeviceUnavailable

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--no-pdf-header-footer",
)  # fmt: skip
SECONDS = 120


def html_to_pdf(page: str, out: Path) -> None:
    """Print a self-contained page.

    Raises DeviceUnavailable where no Chromium is found, ColibriError where it does not print.
    """
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise DeviceUnavailable(
            "a PDF is printed by Chromium, and none is installed",
            expected=f"one of {', '.join(BROWSERS)} on the path",
            hint="install it (Debian: apt install chromium), or write .html and print from there",
        )
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "report.html"
        source.write_text(page, encoding="utf-8")
        command = [browser, *FLAGS, f"--user-data-dir={folder}/profile",
                   f"--print-to-pdf={out.resolve()}", source.as_uri()]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    if done.returncode or not out.is_file():
        raise ColibriError(
            "the browser did not print the page", path=out, found=done.stderr.strip()[-400:]
        )
