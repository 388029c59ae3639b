"""Hold out whole documents of each domain, drop near-duplicates, and write the texts.

Writes ``<work>/text/<domain>.train.jsonl`` (one document a line), the shipped held-out texts
``<out>/<domain>.txt`` and ``<work>/split.json`` with what was measured.
"""

import argparse
import json
import random
import re
from pathlib import Path

import corpora

TRAIN_BYTES = 7_000_000
HELD_BYTES = 46_000  # the files end between 40 and 50 KB
CANDIDATE_BYTES = 150_000
SLICE_BYTES = 10_000  # at most this much of one held-out document, so that several are in
LARGEST_SHARE = 0.02  # a document above this share of its domain is too dear to hold out
SHINGLE_WORDS = 8
# A held-out slice is dropped when one single training document holds this share of its shingles.
DUPLICATE_SHARE = 0.2
# Compatibility tables repeat each other's skeletons by nature: see the data card.
DUPLICATE_SHARE_OF = {"json": 0.5}
WORD = re.compile(r"[\u3400-\u9fff]|[^\s\u3400-\u9fff]+")


def shingles(text: str) -> set[int]:
    """Return the hashes of all runs of eight words (Chinese: characters) of a text."""
    words = WORD.findall(text)
    runs = zip(*(words[start:] for start in range(SHINGLE_WORDS)), strict=False)
    return {hash(run) for run in runs}


def middle_slice(text: str, size: int, rng: random.Random) -> str:
    """Return whole lines from a random place of the text, about ``size`` bytes of UTF-8."""
    data = text.encode()
    if len(data) <= size:
        return text
    start = rng.randrange(len(data) - size)
    lines = data[start : start + size].split(b"\n")[1:-1]
    return b"\n".join(lines).decode() + "\n"


def draw_candidates(documents: dict[str, str], rng: random.Random) -> list[str]:
    """Choose the names of documents to hold out, about ``CANDIDATE_BYTES`` of slices."""
    total = sum(len(text.encode()) for text in documents.values())
    names = [
        name for name, text in documents.items() if 500 < len(text.encode()) < LARGEST_SHARE * total
    ]
    rng.shuffle(names)
    chosen, size = [], 0
    while size < CANDIDATE_BYTES and names and len(chosen) < 0.15 * len(documents):
        chosen.append(names.pop())
        size += min(SLICE_BYTES, len(documents[chosen[-1]].encode()))
    return chosen


def overlaps(slices: dict[str, str], training: list[str]) -> dict[str, tuple[float, float]]:
    """Return for each slice the share of its shingles in the worst single training document,
    and in all of them together."""
    sets = {name: shingles(text) for name, text in slices.items()}
    wanted = set().union(*sets.values())
    worst = dict.fromkeys(slices, 0)
    seen: set[int] = set()
    for text in training:
        common = shingles(text) & wanted
        seen |= common
        for name, own in sets.items():
            worst[name] = max(worst[name], len(own & common))
    return {
        name: (worst[name] / max(len(own), 1), len(own & seen) / max(len(own), 1))
        for name, own in sets.items()
    }


def take_training(documents: dict[str, str], rng: random.Random) -> list[str]:
    """Return documents in random order up to ``TRAIN_BYTES``."""
    names = sorted(documents)
    rng.shuffle(names)
    texts, size = [], 0
    for name in names:
        if size < TRAIN_BYTES:
            texts.append(documents[name])
            size += len(texts[-1].encode())
    return texts


def split_domain(domain: str, documents: dict[str, str]) -> tuple[list[str], str, dict]:
    """Return training documents, the held-out text and the figures of one domain."""
    rng = random.Random(f"sample-model/{domain}")
    candidates = draw_candidates(documents, rng)
    slices = {name: middle_slice(documents[name], SLICE_BYTES, rng) for name in candidates}
    training = take_training({n: t for n, t in documents.items() if n not in slices}, rng)
    shares = overlaps(slices, training)
    limit = DUPLICATE_SHARE_OF.get(domain, DUPLICATE_SHARE)
    clean = [name for name in candidates if shares[name][0] <= limit]
    kept, size = [], 0
    for name in clean:
        if size < HELD_BYTES - SLICE_BYTES / 2:
            kept.append(name)
            size += len(slices[name].encode())
    figures = {
        "train_documents": len(training),
        "train_bytes": sum(len(text.encode()) for text in training),
        "held_documents": kept,
        "held_bytes": size,
        "candidates": len(candidates),
        "near_duplicates_dropped": len(candidates) - len(clean),
        "duplicate_share_limit": limit,
        "worst_single_document_overlap": max(shares[name][0] for name in kept),
        "mean_overlap_with_all_training": sum(shares[name][1] for name in kept) / len(kept),
    }
    return training, "\n".join(slices[name] for name in kept), figures


def main() -> None:
    """Split every domain and write the texts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=Path("build/sample-model"))
    parser.add_argument("--out", type=Path, default=Path("data/heldout"))
    options = parser.parse_args()
    (options.work / "text").mkdir(parents=True, exist_ok=True)
    options.out.mkdir(parents=True, exist_ok=True)
    report = {}
    for domain, reader in corpora.READERS.items():
        training, held, report[domain] = split_domain(domain, reader(options.work / "unpacked"))
        lines = (json.dumps(text, ensure_ascii=False) for text in training)
        (options.work / f"text/{domain}.train.jsonl").write_text("\n".join(lines) + "\n")
        (options.out / f"{domain}.txt").write_text(held, encoding="utf-8", newline="")
        print(domain, {k: v for k, v in report[domain].items() if k != "held_documents"})
    (options.work / "split.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
