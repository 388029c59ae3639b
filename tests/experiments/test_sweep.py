"""Sweeps: checked results, resuming, failures, stopping."""

from __future__ import annotations

import dataclasses
import errno
import json
import math
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from colibri_lab import Capacity
from colibri_lab.errors import InputError, Interrupted, RunError
from colibri_lab.experiments import Progress, Run, Sweep, backends, session
from colibri_lab.experiments import cell as cell_module
from colibri_lab.experiments.grid import Cell
from colibri_lab.experiments.inputs import load_inputs
from colibri_lab.experiments.reference_runs import summarise_routing
from colibri_lab.reference import Decoder
from tests.support import write_checkpoint

MakeSweep = Callable[..., Sweep]


def only(run: Run) -> dict[str, Any]:
    (record,) = run.records
    return record


def replace_backend(monkeypatch: pytest.MonkeyPatch, name: str, wrap: Callable[[Any], Any]) -> None:
    """Let every runner of a backend pass through `wrap`."""
    real = backends.BACKENDS[name]

    @contextmanager
    def opened(*arguments: Any) -> Any:
        with real.open(*arguments) as runner:
            yield wrap(runner)

    monkeypatch.setitem(backends.BACKENDS, name, dataclasses.replace(real, open=opened))


class Wrapped:
    """A runner that stands before another one."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


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


def test_a_wrong_result_fails_its_cell_and_gets_no_latency(
    make_sweep: MakeSweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Off(Wrapped):
        def get_output(self) -> Any:
            return self._inner.get_output() * 1.001

    replace_backend(monkeypatch, "cpu", Off)
    run = make_sweep(batch_size=[1], backend=["cpu", "numpy"]).run()
    by_backend = {record["backend"]: record for record in run.records}
    failed = by_backend["cpu"]
    assert failed["status"] == "failed"
    assert "differs from the reference" in failed["error"]
    assert failed["output_rel_error"] == pytest.approx(1e-3, rel=0.01)
    assert failed["latency_p50_ms"] is None
    assert failed["tokens_per_s"] is None
    assert by_backend["numpy"]["status"] == "ok"
    assert run.manifest["counts"] == {"cells": 2, "reused": 0, "ran": 2, "failed": 1}
    with pytest.raises(RunError, match="status is ok"):
        run.samples(failed["cell_id"])


@pytest.mark.parametrize("answer", [0.0, np.nan])
def test_zeros_and_nan_are_wrong_results(
    make_sweep: MakeSweep, monkeypatch: pytest.MonkeyPatch, answer: float
) -> None:
    class Constant(Wrapped):
        def get_output(self) -> Any:
            return np.full_like(self._inner.get_output(), answer)

    replace_backend(monkeypatch, "cpu", Constant)
    assert only(make_sweep(batch_size=1).run())["status"] == "failed"


def test_an_output_that_goes_wrong_while_timed_is_seen(
    make_sweep: MakeSweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stale(Wrapped):
        """Computes the warm-up calls, and nothing after them."""

        calls = 0

        def infer(self) -> None:
            self.calls += 1
            if self.calls <= 2:
                self._inner.infer()
                self.kept = self._inner.get_output().copy()

        def get_output(self) -> Any:
            return self.kept

    replace_backend(monkeypatch, "cpu", Stale)
    record = only(make_sweep(batch_size=1).run())
    assert record["status"] == "failed"
    assert record["latency_p50_ms"] is None


def test_an_error_in_a_cell_is_its_row(
    make_sweep: MakeSweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Breaking(Wrapped):
        def set_input(self, hidden_states: Any, lengths: Sequence[int]) -> None:
            if len(lengths) == 2:
                raise MemoryError("no room for two")
            self._inner.set_input(hidden_states, lengths)

    replace_backend(monkeypatch, "cpu", Breaking)
    run = make_sweep(batch_size=[1, 2, 3]).run()
    outcome = {record["batch_size"]: record["status"] for record in run.records}
    assert outcome == {1: "ok", 2: "failed", 3: "ok"}
    assert run.frame.set_index("batch_size")["error"][2] == "MemoryError: no room for two"


def test_resuming_reuses_what_is_there(make_sweep: MakeSweep) -> None:
    first = make_sweep(batch_size=[1, 2]).run()
    before = {record["cell_id"]: record for record in first.records}
    events: list[Progress] = []
    again = make_sweep(batch_size=[1, 2, 3]).run(progress=events.append)
    assert events[-1].stage == "done"
    assert (events[-1].reused, events[-1].done, events[-1].total) == (2, 3, 3)
    assert again.manifest["counts"] == {"cells": 3, "reused": 2, "ran": 1, "failed": 0}
    assert before == {
        record["cell_id"]: record for record in again.records if record["cell_id"] in before
    }
    assert len(again.history) == 3
    assert len(again.manifest["sessions"]) == 2
    assert again.manifest["run_id"] == first.manifest["run_id"]


def test_a_failed_cell_is_tried_again(
    make_sweep: MakeSweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        replace_backend(patch, "cpu", lambda _: None)
        assert only(make_sweep(batch_size=1).run())["status"] == "failed"
    run = make_sweep(batch_size=1).run()
    assert only(run)["status"] == "ok"
    assert [record["status"] for record in run.history] == ["failed", "ok"]


def test_a_cell_without_its_samples_is_measured_again(make_sweep: MakeSweep) -> None:
    run = make_sweep(batch_size=1).run()
    (run.folder / "samples" / f"{only(run)['cell_id']}.npz").unlink()
    again = make_sweep(batch_size=1).run()
    assert again.manifest["counts"]["ran"] == 1
    again.samples(only(again)["cell_id"])


def test_other_code_measures_again_and_its_records_count(
    make_sweep: MakeSweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = only(make_sweep(batch_size=1).run())
    monkeypatch.setattr(session, "code_version", lambda: "other")
    monkeypatch.setattr("colibri_lab.experiments.manifest.code_version", lambda: "other")
    run = make_sweep(batch_size=1).run()
    assert only(run)["cell_id"] != old["cell_id"]
    assert len(run.history) == 2


def test_a_run_is_resumed_from_its_folder_alone(make_sweep: MakeSweep, texts: Any) -> None:
    first = make_sweep(batch_size=[1, 2], crosses=[("batch_size",)]).run()
    again = Sweep.of_run(first.folder, texts=texts)
    assert again.grid.cells() == make_sweep().grid.cells()
    assert again.run().manifest["counts"] == {"cells": 2, "reused": 2, "ran": 0, "failed": 0}


def test_resume_may_be_refused(make_sweep: MakeSweep) -> None:
    make_sweep(batch_size=1).run()
    with pytest.raises(RunError, match="a run in this folder already"):
        make_sweep(batch_size=1).run(resume=False)


def test_a_run_of_another_model_is_refused(make_sweep: MakeSweep, tmp_path: Path) -> None:
    first = make_sweep(batch_size=1).run()
    write_checkpoint(tmp_path / "other", seed=9)
    with pytest.raises(RunError, match="another model") as caught:
        make_sweep(batch_size=1, model=tmp_path / "other").run()
    assert caught.value.found == first.manifest["model_fingerprint"]
    assert caught.value.hint
    assert len(first.history) == 1


def test_a_run_of_another_schema_host_or_input_is_refused(
    make_sweep: MakeSweep, monkeypatch: pytest.MonkeyPatch, texts: Any
) -> None:
    run = make_sweep(batch_size=1).run()
    with pytest.raises(RunError, match="another inputs"):
        make_sweep(batch_size=1, texts={**texts, "one": texts["two"]}).run()
    with monkeypatch.context() as patch:
        patch.setattr(session, "hardware_key", lambda environment: "elsewhere")
        with pytest.raises(RunError, match="another host"):
            make_sweep(batch_size=1).run()
    path = run.folder / "manifest.json"
    path.write_text(json.dumps({**run.manifest, "schema_version": 99}))
    with pytest.raises(RunError, match="another schema version"):
        make_sweep(batch_size=1).run()


def test_progress_tells_cell_count_time_and_failures(make_sweep: MakeSweep) -> None:
    events: list[Progress] = []
    make_sweep(batch_size=[1, 2, 3]).run(progress=events.append)
    assert [event.stage for event in events] == ["prepare", *["cell", "finished"] * 3, "done"]
    finished = [event for event in events if event.stage == "finished"]
    assert [event.done for event in finished] == [1, 2, 3]
    assert finished[0].remaining_s is not None
    assert finished[-1].remaining_s == 0
    assert all("batch" in event.label for event in finished)
    assert all(event.record and event.record["status"] == "ok" for event in finished)


def test_the_order_is_shuffled_by_the_seed(make_sweep: MakeSweep) -> None:
    def order(seed: int) -> list[int]:
        sweep = make_sweep(batch_size=list(range(1, 9)), seed=seed)
        return [cell.batch_size for cell in sweep.plan().cells]

    assert order(1) == order(1)
    assert order(1) != order(2)
    assert sorted(order(1)) == list(range(1, 9)) != order(1)


def test_a_thread_can_be_cancelled_within_half_a_second(make_sweep: MakeSweep) -> None:
    cancel, started, runs = threading.Event(), threading.Event(), []
    sweep = make_sweep(batch_size=[1, 2], repeats=1_000_000)

    def work() -> None:
        runs.append(sweep.run(progress=lambda _: started.set(), cancel=cancel))

    thread = threading.Thread(target=work)
    thread.start()
    assert started.wait(30)
    time.sleep(0.3)
    asked = time.monotonic()
    cancel.set()
    thread.join(30)
    assert time.monotonic() - asked < 0.5
    assert runs[0].manifest["status"] == "cancelled"
    assert runs[0].records == []


def test_a_cancelled_run_keeps_its_cells_and_goes_on(make_sweep: MakeSweep) -> None:
    cancel = threading.Event()

    def after_two(event: Progress) -> None:
        if event.stage == "finished" and event.done == 2:
            cancel.set()

    run = make_sweep(batch_size=[1, 2, 3]).run(progress=after_two, cancel=cancel)
    assert len(run.records) == 2
    again = make_sweep(batch_size=[1, 2, 3]).run()
    assert again.manifest["counts"] == {"cells": 3, "reused": 2, "ran": 1, "failed": 0}
    assert again.manifest["status"] == "done"


def test_ctrl_c_keeps_finished_cells(make_sweep: MakeSweep) -> None:
    def interrupt(event: Progress) -> None:
        if event.stage == "cell" and event.done == 1:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="1 of 3 cells") as caught:
        make_sweep(batch_size=[1, 2, 3]).run(progress=interrupt)
    run = Run.open(str(caught.value.path))
    assert run.manifest["status"] == "interrupted"
    assert len(run.records) == 1
    assert make_sweep(batch_size=[1, 2, 3]).run().manifest["counts"]["reused"] == 1


def test_a_full_disk_stops_the_sweep_and_takes_no_half_cell_for_done(
    make_sweep: MakeSweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        real = os.write

        def full(handle: int, data: bytes) -> int:
            if b'"cell_id"' in data and b'"batch_size": 2' in data:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(handle, data)

        patch.setattr(os, "write", full)
        with pytest.raises(RunError, match="the disk is full"):
            make_sweep(batch_size=[1, 2]).run()
    run = make_sweep(batch_size=[1, 2]).run()
    assert sorted(record["batch_size"] for record in run.history) == [1, 2]


def test_an_output_folder_that_cannot_be_is_a_run_error(
    make_sweep: MakeSweep, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="choose another output folder"):
        make_sweep(batch_size=1, out=tmp_path / "file" / "run").run()


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
    "wrong", [{"repeats": 0}, {"warmup": 0}, {"inputs": "noise"}, {"blas_threads": 0}, {"seed": -1}]
)
def test_bad_settings_are_refused_at_once(make_sweep: MakeSweep, wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        make_sweep(**wrong)


def test_without_texts_the_error_says_what_to_do(make_sweep: MakeSweep) -> None:
    with pytest.raises(InputError, match='inputs="random"'):
        make_sweep(texts=None)
