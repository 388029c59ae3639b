"""Counters: what they hold is read, and no pickle runs."""

from __future__ import annotations

import pickle
import struct

import numpy as np
import pytest

from colibri_lab.errors import TraceError
from colibri_lab.traces.importers import ExpertHistogram, import_any, import_trace
from tests.traces.samples import (
    HISTOGRAMS,
    Runs,
    npy,
)


@pytest.mark.parametrize("name", HISTOGRAMS)
def test_histograms(write, name):
    found = import_any(write(HISTOGRAMS[name]))
    assert isinstance(found, ExpertHistogram)
    assert found.load[0].tolist() == [0, 0, 0, 10, 0, 0, 0, 2]
    assert found.load[-1].tolist() == [0, 5] + [0] * 6
    assert found.layers == (0, 2)
    assert found.stats()["assignments"] == 17
    with pytest.raises(TraceError, match="in what order"):
        import_trace(write(HISTOGRAMS[name]))


def test_a_whole_array_of_counts(write):
    counts = np.arange(12).reshape(3, 4)
    for content in (npy(counts), pickle.dumps(counts), pickle.dumps(np.asfortranarray(counts), 5)):
        assert np.array_equal(import_any(write(content), "counters").load, counts)


def test_a_pickle_that_would_run_code_is_refused_and_not_run(write, tmp_path):
    mark = tmp_path / "it_ran"
    content = pickle.dumps({0: Runs(mark)})
    with pytest.raises(TraceError, match="refused"):
        import_any(write(content))
    assert not mark.exists()
    pickle.loads(content)  # noqa: S301  the same bytes do run where nothing restricts them
    assert mark.exists()


def op(name, *words):
    """A pickle of protocol 2 that calls a name with text arguments."""
    module, attribute = name.rsplit(".", 1)
    text = b"".join(b"X" + struct.pack("<I", len(word)) + word.encode() for word in words)
    return b"\x80\x02c" + f"{module}\n{attribute}\n".encode() + b"(" + text + b"tR."


HOSTILE = {
    "os.system": op("os.system", "true"),
    "builtins.eval": op("builtins.eval", "1"),
    "builtins.getattr": op("builtins.getattr", "a", "b"),
    "a dotted name": op("numpy.core.multiarray.scalar.run", "a"),
    "numpy.load": op("numpy.load", "a"),
    "a call of a builtin": op("builtins.list", "a"),
    "object dtype": pickle.dumps({0: np.array([{}], object)}),
    "text dtype": pickle.dumps({0: np.array(["a"])}),
    "a change to a function": b"\x80\x02c_codecs\nencode\n}X\x01\x00\x00\x00aK\x01sb.",
    "a memo index": b"\x80\x02}r\xff\xff\xff\x7f.",
    "a length of a terabyte": b"\x80\x04\x8e" + struct.pack("<Q", 1 << 40) + b"a.",
    "a byte array of a terabyte": b"\x80\x05\x96" + struct.pack("<Q", 1 << 40) + b"a.",
    "a persistent id": b"\x80\x02K\x01Q.",
    "an array of a terabyte": pickle.dumps({0: np.zeros(3, np.int64)}, 2).replace(
        b"K\x03\x85", b"\x8a\x06\x00\x00\x00\x00\x00\x01\x85"
    ),
    "cut off": pickle.dumps({0: {1: 2}})[:-4],
}


@pytest.mark.parametrize("name", HOSTILE)
def test_pickles_that_are_refused(write, name):
    with pytest.raises(TraceError, match="refused"):
        import_any(write(HOSTILE[name]), "counters")
