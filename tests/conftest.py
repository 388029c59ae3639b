"""What holds for every test: no user's settings, no window, repeatable examples."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

# Set before any library reads them: Jupyter and matplotlib must not see the user's own folders.
_SETTINGS = tempfile.TemporaryDirectory(prefix="colibri-tests-")
os.environ |= {
    "MPLBACKEND": "Agg",
    "MPLCONFIGDIR": f"{_SETTINGS.name}/matplotlib",
    "IPYTHONDIR": f"{_SETTINGS.name}/ipython",
    "JUPYTER_CONFIG_DIR": f"{_SETTINGS.name}/jupyter/config",
    "JUPYTER_DATA_DIR": f"{_SETTINGS.name}/jupyter/data",
    "JUPYTER_PLATFORM_DIRS": "1",
}

# A shared machine makes single examples slow at random, which is no finding.
settings.register_profile("default", deadline=None, max_examples=60)
# Continuous integration draws the same examples every time: a red run can be repeated.
settings.register_profile("ci", settings.get_profile("default"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")


@pytest.fixture(scope="session")
def repository() -> Path:
    """The checkout's root folder."""
    return Path(__file__).resolve().parents[1]


def pytest_sessionfinish() -> None:
    _SETTINGS.cleanup()
