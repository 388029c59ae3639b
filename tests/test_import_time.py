"""`import colibri_lab` is for every script and every cell: it must cost next to nothing."""

from __future__ import annotations

import statistics
import subprocess
import sys

import pytest

LIMIT_S = 0.15
HEAVY = ["IPython", "jupyter_core", "jupyterlab", "matplotlib", "numba", "pandas", "pyarrow"]


def run_python(code: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def test_import_is_fast() -> None:
    code = (
        "import time; start = time.perf_counter(); import colibri_lab;"
        "print(time.perf_counter() - start)"
    )
    assert statistics.median(float(run_python(code)) for _ in range(5)) < LIMIT_S


@pytest.mark.parametrize(
    "code",
    [
        "import colibri_lab",
        "import colibri_lab as cl; [getattr(cl, name) for name in cl.__all__ if name not in "
        "('Run', 'Sweep', 'merge_runs')]",
        "import colibri_lab.cli",
        "from colibri_lab.cli.entry import build_parser; build_parser()",
    ],
    ids=["package", "names without tables", "command line", "its options"],
)
def test_heavy_libraries_stay_out(code: str) -> None:
    pulled = run_python(f"{code}; import sys; print(*sys.modules)").split()
    assert set(HEAVY) & set(pulled) == set()


def test_numpy_stays_out_until_it_is_needed() -> None:
    assert "numpy" not in run_python("import colibri_lab, sys; print(*sys.modules)").split()


def test_every_name_is_there() -> None:
    code = "import colibri_lab as cl; print(*(getattr(cl, name) is None for name in cl.__all__))"
    assert set(run_python(code).split()) == {"False"}


def test_names_are_listed_and_unknown_ones_refused() -> None:
    import colibri_lab

    assert set(colibri_lab.__all__) <= set(dir(colibri_lab))
    with pytest.raises(AttributeError, match="no attribute 'load_modle'"):
        colibri_lab.load_modle  # noqa: B018
