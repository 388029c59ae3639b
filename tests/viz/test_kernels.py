"""The notebooks' kernels and queues: what is launched is the layer, what is said of it is so."""

from dataclasses import dataclass

import numpy as np
import pytest

from colibri_lab.errors import InputError
from colibri_lab.models import load_model
from colibri_lab.reference import moe_layer
from colibri_lab.viz.kernels import broken
from colibri_lab.viz.launches import layer_launches
from colibri_lab.viz.stream_figures import queue_figure, waiting, waits_table
from colibri_lab.viz.streams import Recorder, layer_queue
from tests.support import write_checkpoint

TOKENS = 9


@dataclass(frozen=True)
class Stream:
    """As much of PyCUDA's as a recorder looks at."""

    handle: int


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    write_checkpoint(path)
    return path


@pytest.fixture(scope="module")
def layer(folder):
    """hidden_states [T, H] and the weights of one layer."""
    model = load_model(folder)
    hidden = model.config.moe.hidden_size
    return np.random.default_rng(1).standard_normal((TOKENS, hidden)), model.moe_weights(0)


@pytest.fixture(scope="module")
def device():
    pytest.importorskip("pycuda", reason="PyCUDA is not installed: make test builds it")
    from colibri_lab import simt
    from colibri_lab.viz.kernels import lesson_device

    if simt.has_real_driver() and not simt.is_enabled():
        pytest.skip("the tests of this process run on the GPU; the notebooks' own do not")
    return lesson_device()


def test_the_launches_are_the_layer(layer):
    """By the twins alone: the last launch of each way to aggregate makes the layer's output."""
    from colibri_lab.kernels import find
    from colibri_lab.kernels.check import expect

    x, weights = layer
    launches = layer_launches(x, weights, top_k=2)
    truth = moe_layer(x.astype(np.float32), weights, top_k=2).hidden_states
    for way in ("aggregate, atomic", "aggregate, gather"):
        entry, case = launches[way][-1]
        assert np.allclose(expect(find([entry])[0], case)["output"], truth, atol=1e-5)
    names = {way: [entry for entry, _ in each] for way, each in launches.items()}
    assert names["separate"] == ["expert_gemm_tiled"] * 2 + ["silu_mul", "expert_gemm_tiled"]
    assert names["fused_expert"] == ["fused_expert"]


def test_every_launch_passes_and_nothing_is_found(layer, device):
    from colibri_lab.viz.kernels import observe, traffic, traffic_figure

    paths = {way: observe(device, each) for way, each in layer_launches(*layer, top_k=2).items()}
    for launches in paths.values():
        for one in launches:
            assert one.checked.status == "passed", (one.entry, one.checked.why)
            assert one.seen.findings == []
    frame = traffic(paths)
    assert (frame["bytes"] > 0).all()
    sums = frame.groupby("path")[["bytes", "weight_bytes"]].sum()
    rest = sums["bytes"] - sums["weight_bytes"]
    assert rest["separate"] > rest["fused_swiglu"] > 0
    assert sums["weight_bytes"]["separate"] == sums["weight_bytes"]["fused_expert"] > 0
    assert sums["weight_bytes"]["aggregate, atomic"] == 0
    ways = ["separate", "fused_expert"]
    shown = frame[frame["path"].isin(ways)]
    figure = traffic_figure({"one": shown}, device.name)
    widths = [bar.get_width() * 2**20 for bar in figure.axes[0].patches]
    expected = [*sums["weight_bytes"][ways], *rest[ways]]
    assert np.allclose(widths, expected)
    assert device.name in figure.get_suptitle()


BREAKS = {
    "barrier": ("__syncthreads();\n    for (int k", "for (int k", "", "race"),
    "zeros": ("store<storage>(silu(gate) * up)", "store<storage>(0.0f)", "h[", ""),
    "stale": ("if (has_row && out", "if (has_row && threadIdx.y > 0 && out", "h[", ""),
    "input": ("int i = start + column;", "int i = start + column; ((storage*)x)[0] = 1;",
              "x, an input, was changed", ""),
}  # fmt: skip


@pytest.mark.parametrize("kind", BREAKS)
def test_a_broken_kernel_is_found(layer, device, kind):
    from colibri_lab.viz.kernels import listing, observe_kernel, verdicts

    old, new, why, finding = BREAKS[kind]
    entry, case = layer_launches(*layer, top_k=2)["fused_swiglu"][0]
    one = observe_kernel(device, broken(entry, old, new), case)
    assert one.checked.why.startswith(why)
    assert not why or one.checked.status == "failed"
    assert finding in " ".join(map(str, one.seen.errors))
    row = verdicts({kind: one}).loc[kind]
    assert finding in row["found"]
    assert "fused_swiglu_tiled" in listing(one).html
    assert "common.cuh" not in listing(one).html


def test_a_text_that_is_not_in_the_source():
    with pytest.raises(InputError, match="no such text"):
        broken("silu_mul", "nothing of the kind", "")


def test_a_recorder_knows_what_waits():
    log, one, two = Recorder(), Stream(7), Stream(9)
    log.add(one, "kernel", "a")
    log.add(one, "kernel", "b")
    log.add(two, "kernel", "c")
    log.wait(two, log.last(one))
    log.add(two, "kernel", "d")
    assert [each.step for each in log.queued] == [0, 1, 0, 2]
    assert log.queued[3].after == (1, 2)
    assert log.queued[3].waits == (1,)
    assert waiting(log) == ["stream 1: d (number 3) waits for b (number 1) of stream 0"]
    log.host_waits_for([0, 1, 2, 3])
    log.add(one, "kernel", "e")
    assert log.queued[4].step == log.longest - 1 == 3
    later = log.since(4)
    assert [(each.number, each.step, each.after) for each in later.queued] == [(0, 0, ())]


@pytest.mark.parametrize(("slots", "warm"), [(2, False), (8, True)])
def test_queues_of_the_engine(folder, layer, device, slots, warm):
    x, weights = layer
    options = {"expert_cache_size": slots, "warm": warm, "top_k": 2}
    runs = {n: layer_queue(folder, 0, x, stream_count=n, **options) for n in (1, 2)}
    truth = moe_layer(x.astype(np.float32), weights, top_k=2).hidden_states
    for log, output in runs.values():
        assert np.allclose(output, truth, atol=1e-4)
        for each in log.queued:  # a stream's operations run in turn, and none before what it awaits
            assert all(log.queued[number].step < each.step for number in each.after)
        assert {each.kind for each in log.queued} == {
            "copy to device", "fill", "kernel", "copy to host",
        }  # fmt: skip
    assert np.array_equal(runs[1][1], runs[2][1])
    table = waits_table({str(n): log for n, (log, _) in runs.items()})
    assert table["operations"]["2"] > table["operations"]["1"]
    assert table["waits_between_streams"]["1"] == 0
    assert bool(table["waits_between_streams"]["2"]) is not warm
    figure = queue_figure({"two": runs[2][0]}, device.name)
    (axes,) = figure.axes
    assert len(axes.patches) >= len(runs[2][0].queued)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["stream 0", "stream 1"]
    assert "no times" in axes.get_xlabel()
