"""What a figure was made on: the provenance of every record."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

PACKAGES = ("numpy", "safetensors", "tokenizers", "ml_dtypes", "threadpoolctl", "pandas")
HOST = ("cpu", "logical_cores", "architecture", "simd", "blas")
SIMD = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "asimd", "sve", "i8mm")


def describe() -> dict[str, Any]:
    """Everything that a provenance footer needs, as plain JSON values; unknown ones are None."""
    return {**_fixed(), "utc": datetime.now(UTC).isoformat(timespec="seconds")}


def hardware_key(environment: dict[str, Any]) -> str:
    """Identifies the kind of host: records with unlike keys are not comparable."""
    host = {name: environment.get(name) for name in HOST}
    return hashlib.sha256(json.dumps(host, sort_keys=True).encode()).hexdigest()[:12]


@lru_cache(maxsize=1)
def _fixed() -> dict[str, Any]:
    cpu = _cpuinfo()
    return {
        "colibri_lab": _version("colibri-lab"),
        "commit": git_commit(),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "blas": _blas(),
        "cpu": cpu.get("model name") or platform.processor() or None,
        "architecture": platform.machine(),
        "simd": [name for name in SIMD if name in cpu.get("flags", "").split()],
        "logical_cores": os.cpu_count(),
        "usable_cores": usable_cores(),
        "memory_bytes": _memory_bytes(),
        "caches": caches(),
        "os": f"{platform.system()} {platform.release()}",
        "executable": Path(sys.executable).name,
    }


def usable_cores() -> int:
    """Cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def git_commit() -> dict[str, Any] | None:
    """The commit of the checkout that the package is in, and whether it was changed since."""
    folder = Path(__file__).resolve().parent
    root = _git(folder, "rev-parse", "--show-toplevel")
    if root is None or not (Path(root) / "colibri_lab").is_dir():
        return None
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return None
    changed = _git(Path(root), "status", "--porcelain", "--untracked-files=no")
    return {"hash": commit, "dirty": bool(changed)}


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True, text=True, timeout=10, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _blas() -> str | None:
    """The BLAS that NumPy multiplies with, with its version and the kernel it chose."""
    from threadpoolctl import threadpool_info

    np.ones((2, 2)) @ np.ones((2, 2))
    for pool in threadpool_info():
        if pool["user_api"] == "blas":
            parts = (pool["internal_api"], pool["version"], pool.get("architecture"))
            return " ".join(str(part) for part in parts if part)
    return None


def _cpuinfo() -> dict[str, str]:
    """The first processor's lines of /proc/cpuinfo; Arm calls its flags Features."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    lines = [line.split(":", 1) for line in text.split("\n\n", 1)[0].splitlines() if ":" in line]
    found = {name.strip(): value.strip() for name, value in lines}
    return {"flags": found.get("Features", ""), **found}


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None


def caches() -> dict[str, str]:
    """Name -> size of the first core's caches, as the kernel tells them."""
    found = {}
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            level, kind, size = (
                (folder / name).read_text().strip() for name in ("level", "type", "size")
            )
        except OSError:
            continue
        found[f"L{level} {kind.lower()}"] = size
    return found
