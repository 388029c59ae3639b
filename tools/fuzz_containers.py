"""Fuzz the container readers: ``python -m tools.fuzz_containers --cases 100000``.

Each case mutates a good file: fields of the header set to edge values, bits flipped, bytes
overwritten, the file cut or lengthened; half of the ``.cbi`` cases get a fresh checksum, so that
what lies behind it is reached. A case is `refused` (FormatError), or `read`: then every expert and
router must be views of the right shapes inside the file. Anything else is `wrong` and is printed.
"""

from __future__ import annotations

import argparse
import json
import resource
import struct
import tempfile
import time
import zlib
from collections import Counter
from pathlib import Path

import numpy as np

from colibri_lab.errors import FormatError
from colibri_lab.formats.cbi import CbiFile
from colibri_lab.formats.colibri import ColibriFile
from tests.formats.containers import make_cbi, make_colibri

KINDS = ("colibri-float32", "colibri-float16", "cbi-float32", "cbi-tensor", "cbi-row")
HEADS = {"colibri": 64, "cbi": 0x68}
EDGES = (0, 1, 2, 3, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 63, (1 << 64) - 1)


def seed_file(kind: str, folder: Path) -> bytes:
    """A good file of this kind, small: aligned to 64 bytes."""
    family, _, variant = kind.partition("-")
    path = folder / f"good.{family}"
    if family == "colibri":
        make_colibri(path, int(variant == "float16"))
    else:
        make_cbi(path, variant, bias=variant == "row", alignment=64)
    return path.read_bytes()


def mutate(data: bytes, head: int, rng: np.random.Generator) -> bytes:
    """One to three changes, most of them in the first `head` bytes."""
    changed = bytearray(data)
    for _ in range(rng.integers(1, 4)):
        if not changed:
            break
        end = min(head, len(changed)) if rng.random() < 0.8 else len(changed)
        place = int(rng.integers(0, end))
        action = rng.integers(0, 6)
        if action <= 1:
            changed[place] ^= 1 << int(rng.integers(0, 8))
        elif action == 2:
            changed[place] = int(rng.integers(0, 256))
        elif action == 3:
            _write_edge(changed, place, rng)
        elif action == 4:
            del changed[int(rng.integers(0, len(changed) + 1)) :]
        else:
            changed += bytes(int(rng.integers(1, 70)))
    return bytes(changed)


def _write_edge(changed: bytearray, place: int, rng: np.random.Generator) -> None:
    width = int(rng.choice([2, 4, 8]))
    place -= place % width
    value = EDGES[rng.integers(0, len(EDGES))] & ((1 << 8 * width) - 1)
    if place + width <= len(changed):
        changed[place : place + width] = value.to_bytes(width, "little")


def reseal(data: bytes) -> bytes:
    """The checksum of a ``.cbi`` made right again."""
    if len(data) < HEADS["cbi"]:
        return data
    end = min(struct.unpack_from("<Q", data, 0x20)[0], len(data))
    crc = zlib.crc32(data[0x64:end], zlib.crc32(data[:0x60]))
    return data[:0x60] + struct.pack("<I", crc) + data[0x64:]


def outcome(path: Path) -> str:
    """`refused`, `read`, or what went wrong."""
    opener = ColibriFile if path.suffix == ".colibri" else CbiFile
    try:
        with opener(path) as file:
            _read_all(file)
    except FormatError:
        return "refused"
    except Exception as error:  # the point of the exercise
        return f"{type(error).__name__}: {error}"
    return "read"


def _read_all(file: ColibriFile | CbiFile) -> None:
    header = file.header
    wide = (header.intermediate_size, header.hidden_size)
    for layer in range(header.num_layers):
        assert file.router(layer).shape == (header.hidden_size, header.num_experts)
        for index in range(header.num_experts):
            weights = file.expert(layer, index)
            assert (weights.gate.shape, weights.down.shape) == (wide, wide[::-1])
            weights.down.tobytes()  # touches every page: a view past the file would end the process


def run(kind: str, cases: int, seed: int, folder: Path) -> Counter[str]:
    """Counts of cases, refused, read and wrong."""
    rng = np.random.default_rng(seed)
    family = kind.partition("-")[0]
    good = seed_file(kind, folder)
    path = folder / f"mutated.{family}"
    counts: Counter[str] = Counter(cases=cases, refused=0, read=0, wrong=0)
    for case in range(cases):
        data = mutate(good, HEADS[family], rng)
        if family == "cbi" and rng.random() < 0.5:
            data = reseal(data)
        path.write_bytes(data)
        found = outcome(path)
        counts[found if found in counts else "wrong"] += 1
        if found not in counts:
            print(f"{kind}, seed {seed}, case {case}: {found}")
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000, help="in all")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    start = time.monotonic()
    for kind in KINDS:
        with tempfile.TemporaryDirectory() as folder:
            counts = run(kind, options.cases // len(KINDS), options.seed, Path(folder))
        print(json.dumps({"kind": kind, **counts}))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": round(time.monotonic() - start, 1), "peak_mib": round(peak, 1)}))


if __name__ == "__main__":
    main()
