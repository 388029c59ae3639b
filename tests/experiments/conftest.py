"""A small random checkpoint, token sequences to read, and a sweep over them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from colibri_lab.experiments import Sweep
from colibri_lab.models import load_model
from colibri_lab.reference import Decoder
from tests.support import CONFIG, write_checkpoint

DOMAINS = ("one", "two", "three")


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "small"
    write_checkpoint(folder)
    return folder


@pytest.fixture(scope="session")
def decoder(checkpoint: Path) -> Decoder:
    return load_model(checkpoint)


@pytest.fixture(scope="session")
def texts() -> dict[str, Any]:
    """Token ids in place of text: the small model has no tokenizer."""
    rng = np.random.default_rng(5)
    return {name: rng.integers(0, CONFIG["vocab_size"], 400) for name in DOMAINS}


@pytest.fixture
def make_sweep(checkpoint: Path, texts: dict[str, Any], tmp_path: Path) -> Callable[..., Sweep]:
    """Sweep(...) over the small model into tmp_path / "run"; arguments may be changed."""

    def make(**changes: Any) -> Sweep:
        arguments: dict[str, Any] = {
            "batch_size": [1, 2],
            "expert_cache_slots": 2,
            "repeats": 4,
            "warmup": 2,
            "texts": texts,
            "out": tmp_path / "run",
        }
        model = changes.pop("model", checkpoint)
        return Sweep(model, **{**arguments, **changes})

    return make
