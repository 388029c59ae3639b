"""Find and window the encoded texts, for training and measuring."""

from pathlib import Path

import numpy as np

SEQUENCE = 256


def domains(work: Path) -> list[str]:
    """Return the names of the domains in alphabetical order."""
    return [path.name.split(".")[0] for path in sorted((work / "tokens").glob("*.train.npy"))]


def load_tokens(work: Path, domain: str, part: str) -> np.ndarray:
    """Load the tokens of a domain; ``part`` is ``train`` or ``held``."""
    return np.load(work / "tokens" / f"{domain}.{part}.npy")


def heldout_windows(tokens: np.ndarray) -> np.ndarray:
    """Return rows of 257 tokens that score every token once; a last partial row is left out."""
    rows = (len(tokens) - 1) // SEQUENCE
    starts = np.arange(rows)[:, None] * SEQUENCE
    return tokens[starts + np.arange(SEQUENCE + 1)].astype(np.int64)
