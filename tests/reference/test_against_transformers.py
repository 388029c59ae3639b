"""The reference's logits and routing against those that transformers computed, stored in files."""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest

from colibri_lab.models import load_model
from colibri_lab.reference import Decoder
from tests.golden.reading import (
    SAMPLE,
    Golden,
    changed_files,
    checkpoint_folder,
    compare,
    golden_file,
    read_golden,
)

# transformers sums in float32: at logits of about 10, it is itself up to 1e-5 from what it
# computes with a cache (cache_difference in the metadata).
TOLERANCE = 1e-4

RANDOM = [
    "mixtral-all-experts",
    "mixtral-base",
    "mixtral-head-dim-float16",
    "mixtral-mha-top1",
    "mixtral-mqa-bfloat16",
    "mixtral-sharded",
    "mixtral-tied-eps",
    "mixtral-window-16",
    "mixtral-window-7-tied",
]
# Where one of the sample model and its golden file is, the other must be.
SAMPLES = [SAMPLE] if checkpoint_folder(SAMPLE).exists() or golden_file(SAMPLE).exists() else []
NAMES = RANDOM + SAMPLES

golden = lru_cache(read_golden)


@lru_cache
def model(name: str) -> Decoder:
    return load_model(checkpoint_folder(name))


def cases() -> list[tuple[str, str]]:
    """Every configuration and case; a missing golden file fails in the test of the checksums."""
    made = [name for name in NAMES if golden_file(name).exists()]
    return [(name, case) for name in made for case in golden(name).cases]


def check_checkpoint(name: str, found: Golden) -> None:
    changed = changed_files(found)
    if changed:
        pytest.fail(
            f"{golden_file(name)} was made from other files than {found.checkpoint} has now: "
            f"{', '.join(changed)}. Make it again: {found.metadata['command']}"
        )


@pytest.mark.parametrize("name", NAMES)
def test_golden_file_is_of_this_checkpoint(name):
    assert golden_file(name).exists(), "make it: see tools/golden/README.md"
    check_checkpoint(name, golden(name))


@pytest.mark.parametrize("cached", [False, True], ids=["whole", "cached"])
@pytest.mark.parametrize(("name", "case_name"), cases())
def test_logits_and_routing(name, case_name, cached):
    check_checkpoint(name, golden(name))
    case = golden(name).cases[case_name]
    length = case.token_ids.shape[1]
    found = compare(model(name), case, in_steps(case.steps, length) if cached else [length])
    assert found.topk_ids == 0
    assert found.topk_weights < TOLERANCE
    assert found.moe_inputs < TOLERANCE
    assert found.logits < TOLERANCE


def in_steps(steps: tuple[int, ...], length: int) -> list[int]:
    """As transformers was fed; where that was in one piece: the last two tokens one by one."""
    if len(steps) > 1:
        return list(steps)
    return [length - 2, 1, 1] if length > 2 else [1] * length


@pytest.mark.parametrize("name", NAMES)
def test_output_head(name):
    """Where logits differ, this says whether the head is to blame or something before it."""
    head = model(name).weights.lm_head.astype(np.float64)
    for case in golden(name).cases.values():
        logits = case.hidden_states.astype(np.float64) @ head.T
        assert np.abs(logits - case.logits).max() < TOLERANCE, case.name


@pytest.mark.parametrize("name", RANDOM)
def test_golden_routing_is_well_defined(name):
    """No two probabilities that decide topk_ids are so near that rounding could swap them."""
    metadata = golden(name).metadata
    gaps = [metadata[gap] for gap in ("boundary_gap", "order_gap") if metadata[gap] is not None]
    assert min(gaps) > 2e-5
    assert set(metadata["experts_used"]) == {model(name).config.moe.num_experts}


# A wrong reading of config.json must show: otherwise these files could not tell right from wrong.
MISREADINGS = [
    ("mixtral-window-16", {"sliding_window": None}),
    ("mixtral-window-16", {"sliding_window": 17}),
    ("mixtral-window-7-tied", {"sliding_window": 6}),
    ("mixtral-base", {"rope_theta": 1e4}),
    ("mixtral-mha-top1", {"rope_theta": 1e6}),
    ("mixtral-base", {"rms_norm_eps": 1e-6}),
    ("mixtral-tied-eps", {"rms_norm_eps": 1e-5}),
]


@pytest.mark.parametrize(("name", "changes"), MISREADINGS, ids=str)
def test_a_misread_configuration_is_noticed(name, changes):
    right = model(name)
    wrong = replace(right, config=replace(right.config, **changes))
    found = compare(wrong, golden(name).cases["length-33"], [33])
    assert found.logits > 2 * TOLERANCE


@pytest.mark.parametrize("changes", [{"renormalize": False}, {"top_k": 1}], ids=str)
def test_a_wrong_routing_rule_is_noticed(changes):
    right = model("mixtral-base")
    moe = replace(right.config.moe, **changes)
    wrong = replace(right, config=replace(right.config, moe=moe))
    case = golden("mixtral-base").cases["length-33"]
    k = moe.top_k
    case = replace(case, topk_ids=case.topk_ids[..., :k], topk_weights=case.topk_weights[..., :k])
    assert compare(wrong, case, [33]).logits > 100 * TOLERANCE


def test_a_changed_checkpoint_is_noticed(tmp_path):
    name = "mixtral-base"
    folder = shutil.copytree(checkpoint_folder(name), tmp_path / name)
    moved = replace(golden(name), checkpoint=folder)
    assert changed_files(moved) == []
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x00")
    (folder / "config.json").unlink()
    assert changed_files(moved) == ["config.json", "model.safetensors"]
    with pytest.raises(pytest.fail.Exception, match="Make it again: python -m"):
        check_checkpoint(name, moved)
