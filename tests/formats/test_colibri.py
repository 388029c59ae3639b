"""``.colibri`` against bytes written out by hand, and every bad header."""

import struct

import numpy as np
import pytest

from colibri_lab.errors import FormatError, InputError
from colibri_lab.formats.colibri import ColibriFile, ColibriHeader, write_colibri
from tests.formats.containers import E, H, I, K, L, expert, make_colibri, router


@pytest.mark.parametrize(("code", "dtype"), [(0, "<f4"), (1, "<f2")])
def test_bytes_are_what_the_format_says(tmp_path, code, dtype):
    path = tmp_path / "x.colibri"
    make_colibri(path, code)
    wanted = b"COLI" + struct.pack("<HHHHHHH", 0x0100, L, E, K, H, I, code) + bytes(46)
    pairs = [(layer, e) for layer in range(L) for e in range(E)]
    for part in ("gate", "up", "down"):
        wanted += b"".join(getattr(expert(*pair), part).astype(dtype).tobytes() for pair in pairs)
    wanted += b"".join(router(layer).astype(dtype).tobytes() for layer in range(L))
    size = np.dtype(dtype).itemsize
    assert len(wanted) == 64 + L * E * 3 * I * H * size + L * H * E * size
    assert path.read_bytes() == wanted


def test_read_back_without_a_copy(tmp_path):
    path = tmp_path / "x.colibri"
    make_colibri(path)
    with ColibriFile(path) as file:
        for layer in range(L):
            assert np.array_equal(file.router(layer), router(layer))
            for e in range(E):
                found, wanted = file.expert(layer, e), expert(layer, e)
                assert np.array_equal(found.down, wanted.down)
                assert np.array_equal(found.gate, wanted.gate)
                assert not found.up.flags.owndata
                assert not found.up.flags.writeable


def test_a_60_byte_header_is_read_where_only_it_fits(tmp_path):
    path = tmp_path / "x.colibri"
    make_colibri(path)
    data = path.read_bytes()
    path.write_bytes(data[:60] + data[64:])
    with ColibriFile(path) as file:
        assert file.header_bytes == 60
        assert np.array_equal(file.expert(1, 2).down, expert(1, 2).down)


def patched(offset, value, form="<H"):
    def spoil(data):
        packed = struct.pack(form, value)
        return data[:offset] + packed + data[offset + len(packed) :]

    return spoil


BAD = {
    "magic": (patched(0, b"COLX", "4s"), 0, "magic"),
    "version": (patched(4, 0x0200), 4, "version"),
    "zero layers": (patched(6, 0), 6, "num_layers"),
    "zero experts": (patched(8, 0), 8, "num_experts"),
    "zero top_k": (patched(10, 0), 10, "top_k"),
    "top_k over E": (patched(10, E + 1), 10, "top_k"),
    "zero hidden": (patched(12, 0), 12, "hidden_size"),
    "zero intermediate": (patched(14, 0), 14, "intermediate_size"),
    "dtype": (patched(16, 2), 16, "dtype"),
    "reserved": (patched(40, 1), 40, "reserved"),
    "more layers": (patched(6, L + 1), None, "size"),
    "largest of all": (lambda d: d[:6] + b"\xff" * 10 + d[16:], None, "size"),
    "short": (lambda d: d[:-1], None, "size"),
    "long": (lambda d: d + b"\0", None, "size"),
    "header alone": (lambda d: d[:64], None, "size"),
    "half a header": (lambda d: d[:10], None, "shorter than a header"),
    "empty": (lambda d: b"", None, "empty"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files(tmp_path, name):
    spoil, offset, words = BAD[name]
    path = tmp_path / "x.colibri"
    make_colibri(path)
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(FormatError) as caught:
        ColibriFile(path)
    assert words in str(caught.value)
    assert caught.value.path == str(path)
    assert caught.value.offset == offset


def test_a_file_that_shrinks_is_noticed(tmp_path):
    path = tmp_path / "x.colibri"
    make_colibri(path)
    with ColibriFile(path) as file:
        with path.open("r+b") as other:
            other.truncate(100)
        with pytest.raises(FormatError, match="shrunk"):
            file.expert(0, 0)


def test_missing_file(tmp_path):
    with pytest.raises(FormatError, match="cannot be opened"):
        ColibriFile(tmp_path / "none.colibri")


@pytest.mark.parametrize(("layer", "e"), [(-1, 0), (L, 0), (0, E), (0, -1)])
def test_no_such_expert(tmp_path, layer, e):
    make_colibri(tmp_path / "x.colibri")
    with ColibriFile(tmp_path / "x.colibri") as file, pytest.raises(InputError, match="range"):
        file.expert(layer, e)


@pytest.mark.parametrize("size", [0, 65_536])
def test_sizes_that_do_not_fit_are_refused_at_writing(tmp_path, size):
    with pytest.raises(InputError, match="does not fit"):
        make_colibri(tmp_path / "x.colibri", num_layers=size)
    assert not list(tmp_path.iterdir())


def test_float16_overflow_is_refused_and_named(tmp_path):
    def large(layer, index):
        weights = expert(layer, index)
        weights.up[0, 0] = 1e6
        return weights

    with pytest.raises(InputError, match="layer 0, expert 0, up"):
        write_colibri(tmp_path / "x", ColibriHeader(L, E, K, H, I, 1), router, large)
    assert not list(tmp_path.iterdir())


def test_a_failed_write_leaves_the_older_file(tmp_path):
    path = tmp_path / "x.colibri"
    make_colibri(path)
    before = path.read_bytes()

    def broken(layer, index):
        raise RuntimeError("no weights")

    with pytest.raises(RuntimeError):
        write_colibri(path, ColibriHeader(L, E, K, H, I, 0), router, broken)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["x.colibri"]
