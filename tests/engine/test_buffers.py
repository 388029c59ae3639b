"""Memory: what the engine says it takes, and what the machine says is left."""

import resource

import pytest

from colibri_lab.engine import Engine, buffers
from colibri_lab.engine.buffers import available_bytes, group_left
from colibri_lab.errors import DeviceUnavailable
from tests.support import write_checkpoint

L, E, H, INNER = 2, 4, 16, 24
STAT = "anon 100\nfile 900\nactive_file 300\ninactive_file 500\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    write_checkpoint(path)
    return path


@pytest.mark.parametrize(("streams", "slots"), [(1, 1), (3, 2), (4, 9)])
def test_the_terms_are_what_is_allocated(folder, streams, slots):
    with Engine.open(
        folder, max_batch_size=2, max_seq_len=5, stream_count=streams, expert_cache_size=slots
    ) as engine:
        layers = engine._layers
        held = [list(layer.cache._free) for layer in layers]
        scratch = engine._scratch
        allocated = [
            sum(s.gate.nbytes + s.up.nbytes + s.down.nbytes for slots in held for s in slots),
            sum(layer.router.weight.nbytes for layer in layers),
            sum(s.x.nbytes + s.y.nbytes + s.gate.nbytes + s.up.nbytes for s in scratch),
            engine._results.nbytes + engine._step.nbytes,
        ]
        assert list(engine.memory_terms.values()) == allocated


def test_what_does_not_fit_is_refused_before_allocation(folder, monkeypatch):
    monkeypatch.setattr(buffers, "available_bytes", lambda: 1000)
    monkeypatch.setattr(buffers, "aligned", None)  # allocating would fail
    with pytest.raises(DeviceUnavailable, match="expert slots") as caught:
        Engine.open(folder)
    assert caught.value.expected == "at most 1,000 bytes"
    assert f"{L * 4 * 3 * INNER * H * 4:,}" in caught.value.found


def test_the_machine_has_some_memory_left():
    assert available_bytes() > 1 << 20


@pytest.mark.parametrize(("kind", "name"), [("RLIMIT_DATA", "data"), ("RLIMIT_AS", "space")])
def test_a_limit_of_the_process_counts(monkeypatch, kind, name):
    limit, unlimited = getattr(resource, kind), resource.RLIM_INFINITY
    given = {limit: (1 << 50, 1 << 50)}
    monkeypatch.setattr(resource, "getrlimit", lambda which: given.get(which, (unlimited,) * 2))
    without = available_bytes()
    given[limit] = (1 << 20, 1 << 20)
    assert available_bytes() == 0 < without


def write_group(folder, limit, used, stat=STAT):
    (folder / "memory.max").write_text(f"{limit}\n")
    (folder / "memory.current").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(stat)


@pytest.mark.parametrize(
    ("limit", "used", "left"),
    [(10_000, 4_000, 6_800), (10_000, 9_900, 900), ("max", 4_000, None)],
)
def test_a_control_group_counts_pages_of_files_as_free(tmp_path, limit, used, left):
    write_group(tmp_path, limit, used)
    assert group_left(tmp_path) == left


def test_a_control_group_that_says_nothing(tmp_path):
    assert group_left(tmp_path) is None
    write_group(tmp_path, 10, 5, stat="anon 100\n")
    assert group_left(tmp_path) is None
