"""The memory that a dry run tells, held against what a run really allocates."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from colibri_lab.errors import InputError, RunError
from colibri_lab.experiments import Sweep
from colibri_lab.experiments.memory import held_bytes
from colibri_lab.models import load_model
from tests.support import write_checkpoint

MakeSweep = Callable[..., Sweep]
# An estimate may be so far under and over the measured peak of traced allocations.
UNDER, OVER = 0.9, 1.3

MODEL = {"hidden_size": 64, "intermediate_size": 128, "max_position_embeddings": 256}
WIDE = {**MODEL, "hidden_size": 256, "intermediate_size": 512, "num_local_experts": 8}
# name -> the model, the sweep, and a word of the largest term: each case is about another one.
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "vocabulary": ({**MODEL, "vocab_size": 8192}, {"batch_size": 2}, "perplexity"),
    "tokens": (MODEL, {"batch_size": 8, "seq_len": 64, "capacity": ["none", "hard:1"]}, "running"),
    "numpy": (MODEL, {"batch_size": 16, "seq_len": 32, "backend": "numpy"}, "numpy"),
    "random": (MODEL, {"batch_size": 64, "seq_len": 16, "inputs": "random"}, "running"),
    "slots": (WIDE, {"batch_size": 4, "expert_cache_slots": 8}, "8 slots"),
    "streams": (WIDE, {"batch_size": 16, "seq_len": 8, "stream_count": 2}, "2 streams"),
}


@pytest.fixture(scope="module")
def imported(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """What the first sweep of a process imports is no memory of a sweep."""
    Sweep(checkpoint, inputs="random", repeats=1, out=tmp_path_factory.mktemp("first")).run()


@pytest.mark.usefixtures("imported")
@pytest.mark.parametrize("name", CASES)
def test_the_memory_told_is_the_memory_taken(name: str, tmp_path: Path) -> None:
    model, axes, largest = CASES[name]
    write_checkpoint(tmp_path / "model", **model)
    ids = np.random.default_rng(0).integers(0, model.get("vocab_size", 64), (3, 2000))
    texts = None if axes.get("inputs") == "random" else dict(zip("abc", ids, strict=True))
    options = {"texts": texts, "repeats": 4, "warmup": 2, **axes}
    plan = Sweep(tmp_path / "model", out=tmp_path / "planned", **options).plan()
    assert largest in list(plan.memory)[-1]
    gc.collect()
    tracemalloc.start()
    try:
        run = Sweep(tmp_path / "model", out=tmp_path / "run", **options).run()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert set(run.frame["status"]) == {"ok"}
    assert peak > 7e6  # or else it would say more of Python than of the sweep
    assert UNDER * peak < plan.memory_bytes < OVER * peak


def test_weights_are_counted_once(tmp_path: Path) -> None:
    tensors = write_checkpoint(tmp_path, tie_word_embeddings=True)
    tensors.pop("lm_head.weight")
    sizes = [tensor.size * 8 for tensor in tensors.values()]
    frequencies = 2 * 2 * 8  # of the rotary embedding: layers, half of head_dim, float64
    assert held_bytes(load_model(tmp_path).weights) == sum(sizes) + frequencies
    lazy = load_model(tmp_path, resident=False).weights
    assert held_bytes(lazy) == (lazy.embedding.size + lazy.final_norm.size) * 8


def test_a_dry_run_refuses_what_the_texts_cannot_fill(
    make_sweep: MakeSweep, tmp_path: Path
) -> None:
    found = []
    sweep = make_sweep(batch_size=1300)
    for call in (sweep.plan, sweep.run):
        with pytest.raises(InputError, match="texts allow") as caught:
            call()
        found.append(str(caught.value))
    assert found[0] == found[1]
    make_sweep(batch_size=1200, out=tmp_path / "most").plan()
    with pytest.raises(InputError, match="texts allow"):
        make_sweep(seq_len=65, out=tmp_path / "long").plan()


def test_a_dry_run_refuses_a_grid_that_outgrew_the_stored_inputs(make_sweep: MakeSweep) -> None:
    make_sweep(batch_size=1).run()
    sweep = make_sweep(batch_size=[1, 4])
    for call in (sweep.plan, sweep.run):
        with pytest.raises(RunError, match="too few for this grid"):
            call()
