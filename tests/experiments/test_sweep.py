"""Sweeps: what a record and a manifest hold."""

from __future__ import annotations

import dataclasses
import math
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from colibri_lab import Capacity
from colibri_lab.errors import InputError
from colibri_lab.experiments import cell as cell_module
from colibri_lab.experiments.grid import Cell
from colibri_lab.experiments.inputs import load_inputs
from colibri_lab.experiments.reference_runs import capacity_error, summarise_routing
from colibri_lab.reference import Decoder

from .helpers import MakeSweep, only


def test_a_record_holds_what_was_measured(make_sweep: MakeSweep, decoder: Decoder) -> None:
    run = make_sweep(batch_size=2, capacity="hard:1").run()
    record, samples = only(run), run.samples(only(run)["cell_id"])
    assert (record["status"], record["error"]) == ("ok", None)
    assert record["output_rel_error"] < 1e-5
    p50, p90, p99 = np.percentile(samples["latency_ns"], [50, 90, 99]) / 1e6
    assert record["latency_p50_ms"] == pytest.approx(p50)
    assert record["latency_p90_ms"] == pytest.approx(p90)
    assert record["latency_p99_ms"] == pytest.approx(p99)
    assert record["tokens_per_s"] == pytest.approx(2 / (p50 / 1e3))
    assert record["llc_miss_ratio"] is None
    assert "llc_miss_ratio" in run.manifest["unavailable"]
    inputs = load_inputs(run.folder)
    assert inputs is not None
    calls = inputs.calls(6, 2, 1)[2:]
    routing = summarise_routing(decoder, calls, 2, Capacity.hard(1.0))
    np.testing.assert_array_equal(samples["expert_load"], routing.expert_load)
    assert record["dropped_fraction"] == routing.dropped_fraction
    assert record["capacity_rel_error"] == capacity_error(decoder, calls, 2, Capacity.hard(1.0)) > 0
    shares = routing.expert_load / routing.expert_load.sum(axis=1, keepdims=True)
    entropy = [-sum(share * math.log2(share) for share in row if share) for row in shares]
    assert record["routing_entropy"] == pytest.approx(sum(entropy) / len(entropy))
    np.testing.assert_allclose(samples["entropy_bits"], entropy)


def test_misses_are_those_of_a_cache_simulated_by_hand(
    make_sweep: MakeSweep, decoder: Decoder
) -> None:
    run = make_sweep(batch_size=1, repeats=12, top_k=2, expert_cache_slots=2).run()
    inputs = load_inputs(run.folder)
    assert inputs is not None
    misses, lookups = [0, 0], [0, 0]
    for layer in range(2):
        resident: OrderedDict[int, None] = OrderedDict()
        router = decoder.weights.layers[layer].moe.router
        for index, call in enumerate(inputs.calls(14, 1, 1)):
            logits = call[layer, 0].astype(np.float64) @ router
            chosen = np.argsort(-logits, kind="stable")[:2].tolist()
            # The engine computes with what is resident before it reads the others in.
            for expert in sorted(chosen, key=lambda expert: (expert not in resident, expert)):
                missed = expert not in resident
                resident[expert] = None
                resident.move_to_end(expert)
                if len(resident) > 2:
                    resident.popitem(last=False)
                if index >= 2:  # the warm-up fills the cache, and is not counted
                    misses[layer] += missed
                    lookups[layer] += 1
    samples = run.samples(only(run)["cell_id"])
    assert samples["misses"].tolist() == misses
    assert samples["lookups"].tolist() == lookups
    assert 0 < sum(misses) < sum(lookups)
    assert only(run)["expert_miss_ratio"] == pytest.approx(sum(misses) / sum(lookups))
    assert only(run)["expert_loads_per_request"] == pytest.approx(sum(misses) / 12)


def test_the_manifest_says_how_and_on_what(make_sweep: MakeSweep, decoder: Decoder) -> None:
    manifest = make_sweep(seed=3).run().manifest
    assert manifest["schema_version"] == 1
    assert manifest["status"] == "done"
    assert manifest["model_fingerprint"] == decoder.fingerprint
    assert manifest["counts"] == {"cells": 2, "reused": 0, "ran": 2, "failed": 0}
    assert manifest["seeds"]["order"] == 3
    assert manifest["inputs"]["kind"] == "text"
    assert "top_k = 2" in manifest["inputs"]["how"]
    assert manifest["perplexity"]["tokens_per_layer_call"] == 3 * 64
    assert manifest["settings"]["blas_threads"] == 1
    assert manifest["environment"]
    assert manifest["hardware_key"]


def test_percentiles_of_known_samples() -> None:
    found = cell_module._latency_columns(np.arange(1, 102) * 1_000_000, Cell(batch_size=3))
    assert [found[f"latency_p{q}_ms"] for q in (50, 90, 99)] == pytest.approx([51, 91, 100])
    assert found["tokens_per_s"] == pytest.approx(3 / 0.051)


def test_random_inputs_are_marked_everywhere(make_sweep: MakeSweep) -> None:
    run = make_sweep(inputs="random", texts=None).run()
    assert {record["inputs"] for record in run.records} == {"random"}
    assert run.manifest["inputs"]["synthetic"] is True
    assert {record["perplexity"] for record in run.records} == {None}
    assert "held-out" in run.manifest["unavailable"]["perplexity"]


def test_the_numpy_backend_runs_without_a_cache(make_sweep: MakeSweep) -> None:
    run = make_sweep(backend="numpy", batch_size=1).run()
    record = only(run)
    assert (record["dtype"], record["output_rel_error"]) == ("float64", 0)
    assert record["latency_p50_ms"] > 0
    assert record["expert_miss_ratio"] is None
    assert "no expert cache" in run.manifest["unavailable"]["expert_miss_ratio"]


def test_a_decoder_in_memory_is_swept_by_numpy_alone(
    make_sweep: MakeSweep, decoder: Decoder
) -> None:
    loose = dataclasses.replace(decoder, path="")
    with pytest.raises(InputError, match="checkpoint"):
        make_sweep(model=loose)
    run = make_sweep(model=loose, backend="numpy", batch_size=1).run()
    assert only(run)["status"] == "ok"


def test_the_order_is_shuffled_by_the_seed(make_sweep: MakeSweep) -> None:
    def order(seed: int) -> list[int]:
        sweep = make_sweep(batch_size=list(range(1, 9)), seed=seed)
        return [cell.batch_size for cell in sweep.plan().cells]

    assert order(1) == order(1)
    assert order(1) != order(2)
    assert sorted(order(1)) == list(range(1, 9)) != order(1)


def test_a_dry_run_counts_and_writes_nothing(make_sweep: MakeSweep, tmp_path: Path) -> None:
    plan = make_sweep(batch_size=[1, 2, 3]).plan()
    assert (plan.num_cells, plan.reused) == (3, 0)
    assert plan.estimated_s > 0
    assert not (tmp_path / "run").exists()
    # 2 layers of 4 experts of 3 * 24 * 16 weights in float64, at the least
    assert plan.memory_bytes > 2 * 4 * 3 * 24 * 16 * 8
    make_sweep(batch_size=[1, 2]).run()
    plan = make_sweep(batch_size=[1, 2, 3]).plan()
    assert plan.reused == 2
    assert "3 cells" in str(plan)
    assert make_sweep(batch_size=[1, 2]).plan().estimated_s == 0


def test_a_top_k_that_the_routing_rule_forbids_is_refused(
    make_sweep: MakeSweep, decoder: Decoder
) -> None:
    rule = dataclasses.replace(decoder.config.moe.rule, num_groups=2, top_groups=1)
    moe = dataclasses.replace(decoder.config.moe, rule=rule)
    grouped = dataclasses.replace(decoder, config=dataclasses.replace(decoder.config, moe=moe))
    with pytest.raises(InputError, match="groups"):
        make_sweep(model=grouped, top_k=[1, 3])


@pytest.mark.parametrize(
    "wrong",
    [
        {"repeats": 0},
        {"warmup": 0},
        {"inputs": "noise"},
        {"blas_threads": 0},
        {"tolerance": float("nan")},
        {"tolerance": -1.0},
        {"seed": -1},
        {"repeats": 10**18},
        {"blas_threads": 10**5},
        {"out": ""},
    ],
)
def test_bad_settings_are_refused_at_once(make_sweep: MakeSweep, wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        make_sweep(**wrong)


def test_without_texts_the_error_says_what_to_do(make_sweep: MakeSweep) -> None:
    with pytest.raises(InputError, match='inputs="random"'):
        make_sweep(texts=None)
