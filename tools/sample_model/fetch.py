"""Fetch the packages whose text the sample model is trained on, and unpack them.

Needs a Debian 12 machine with ``apt-get`` (after ``apt-get update``), ``dpkg-deb`` and ``npm``.
Everything lands under the work folder; nothing is installed.
"""

import argparse
import hashlib
import json
import subprocess
import tarfile
from pathlib import Path

DEBIAN = (
    "bible-kjv",
    "bible-kjv-text",
    "libpython3.11-minimal",
    "libpython3.11-stdlib",
    "metamath-databases",
    "python3.11-doc",
    "sqlite3-doc",
)
# Debian's security updates may move on; the npm packages are pinned.
NPM = {
    "better-sqlite3": "12.11.1",
    "@mdn/browser-compat-data": "8.1.9",
    "chinese-poetry": "2.0.1",
}


def sha256(path: Path) -> str:
    """Return the hexadecimal SHA-256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def fetch_debian(name: str, downloads: Path, unpacked: Path) -> dict[str, str]:
    """Download one Debian package unless it is there already, and unpack it."""
    if not list(downloads.glob(f"{name}_*.deb")):
        subprocess.run(["apt-get", "download", name], cwd=downloads, check=True)
    archive = sorted(downloads.glob(f"{name}_*.deb"))[-1]
    subprocess.run(["dpkg-deb", "-x", archive, unpacked / name], check=True)
    version = subprocess.run(
        ["dpkg-deb", "-f", archive, "Version"], check=True, capture_output=True, text=True
    ).stdout.strip()
    return {"registry": "Debian", "package": name, "version": version, "sha256": sha256(archive)}


def fetch_npm(name: str, version: str, downloads: Path, unpacked: Path) -> dict[str, str]:
    """Download one npm package unless it is there already, and unpack it."""
    archive = downloads / f"{name.lstrip('@').replace('/', '-')}-{version}.tgz"
    if not archive.exists():
        subprocess.run(["npm", "pack", f"{name}@{version}"], cwd=downloads, check=True)
    with tarfile.open(archive) as tar:
        tar.extractall(unpacked / name.split("/")[-1], filter="data")
    return {"registry": "npm", "package": name, "version": version, "sha256": sha256(archive)}


def main() -> None:
    """Fetch all the packages and write ``sources.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=Path("build/sample-model"))
    work = parser.parse_args().work.resolve()
    downloads, unpacked = work / "downloads", work / "unpacked"
    for folder in (downloads, unpacked):
        folder.mkdir(parents=True, exist_ok=True)
    sources = [fetch_debian(name, downloads, unpacked) for name in DEBIAN]
    sources += [fetch_npm(name, version, downloads, unpacked) for name, version in NPM.items()]
    (work / "sources.json").write_text(json.dumps(sources, indent=1) + "\n")
    print(f"{len(sources)} packages under {unpacked}")


if __name__ == "__main__":
    main()
