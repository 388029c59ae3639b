"""``.cbi`` against bytes taken apart by hand, and every bad field."""

import struct
import zlib

import numpy as np
import pytest

from colibri_lab.errors import FormatError, InputError
from colibri_lab.formats.cbi import CbiFile
from colibri_lab.formats.cbi_layout import FLOAT32, plan
from colibri_lab.formats.quantize import QuantizedExpert
from tests.formats.containers import E, H, I, K, L, expert, make_cbi, router, router_bias

MIB = 1 << 20


def test_bytes_are_what_the_format_says(tmp_path):
    path = tmp_path / "x.cbi"
    make_cbi(path)
    data = path.read_bytes()
    magic, version, experts, stride, table, weights = struct.unpack_from("<8sIIQQQ", data)
    assert (magic, version, experts) == (b"COLIBRI\0", 1, E)
    assert stride == 4096  # a small expert
    assert weights == 2 * MIB
    assert len(data) == weights + L * E * stride
    block, *sizes = struct.unpack_from("<8I", data, 0x28)
    assert (block, sizes) == (60, [L, H, I, K, 0, 0, 4096])
    router_offset, _, size, crc = struct.unpack_from("<QQQI", data, 0x48)
    assert size == len(data)
    assert crc == zlib.crc32(data[:0x60] + data[0x64:weights])
    assert np.frombuffer(data, "<i4", L * E, table).tolist() == list(range(L * E))
    assert np.frombuffer(data, "<f4", H * E, router_offset) == pytest.approx(router(0).ravel())
    slot = weights + (1 * E + 2) * stride  # layer 1, expert 2
    wanted = expert(1, 2)
    joined = b"".join(part.tobytes() for part in (wanted.gate, wanted.up, wanted.down))
    assert data[slot : slot + len(joined)] == joined


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("kind", ["float32", "tensor", "row"])
def test_read_back(tmp_path, kind, bias):
    path = tmp_path / "x.cbi"
    slots = np.random.default_rng(0).permutation(L * E).astype(np.int32).reshape(L, E)
    make_cbi(path, kind, slots, bias)
    with CbiFile(path) as file:
        assert np.array_equal(file.routing_table, slots)
        for layer in range(L):
            assert np.array_equal(file.router(layer), router(layer))
            found = file.router_bias(layer)
            assert np.array_equal(found, router_bias(layer)) if bias else found is None
            for e in range(E):
                check_expert(file, layer, e, kind)


def check_expert(file, layer, e, kind):
    stored, wanted = file.stored_expert(layer, e), expert(layer, e)
    assert file.address(layer, e) % 4096 == 0
    assert not stored.gate.flags.owndata
    if kind == "float32":
        assert np.array_equal(stored.down, wanted.down)
        return
    assert isinstance(stored, QuantizedExpert)
    assert stored.gate.dtype == np.int8
    assert len(stored.scales) == (3 if kind == "tensor" else 2 * I + H)
    # A value is off by half a step, or was past the percentile and clipped to it.
    scale = stored.scales[0] if kind == "tensor" else stored.scales[:I, None]
    clipped = np.clip(wanted.gate, -127 * scale, 127 * scale)
    assert np.all(np.abs(file.expert(layer, e).gate - clipped) <= 0.501 * scale)


def test_large_experts_start_on_huge_pages():
    header = plan(
        num_layers=1, num_experts=2, hidden_size=512, intermediate_size=512, top_k=1,
        dtype_code=FLOAT32,
    )  # fmt: skip
    assert header.expert_bytes == 3 * MIB
    assert header.expert_stride == 4 * MIB
    assert header.weights_offset % (2 * MIB) == 0


def test_align(tmp_path):
    header = make_cbi(tmp_path / "x.cbi", alignment=64)
    assert header.weights_offset % 64 == 0
    assert header.weights_offset < 4096
    assert header.expert_stride == 512  # 480 bytes of weights
    with CbiFile(tmp_path / "x.cbi") as file:
        assert np.array_equal(file.expert(1, 1).up, expert(1, 1).up)


@pytest.mark.parametrize("alignment", [0, -1, 3, 1 << 40])
def test_bad_alignment(tmp_path, alignment):
    with pytest.raises(InputError, match="power of two"):
        make_cbi(tmp_path / "x.cbi", alignment=alignment)


@pytest.mark.parametrize("slots", [np.zeros((L, E), np.int32), np.arange(E, dtype=np.int32)])
def test_order_must_be_a_permutation(tmp_path, slots):
    with pytest.raises(InputError, match="no permutation"):
        make_cbi(tmp_path / "x.cbi", slots=slots)
    assert not list(tmp_path.iterdir())


# offset, form, value, words: the CRC is made right again, so that the check itself is reached.
BAD = {
    "magic": (0x00, "8s", b"COLIBRI1", "magic"),
    "version": (0x08, "<I", 2, "version"),
    "no experts": (0x0C, "<I", 0, "expert_count"),
    "many experts": (0x0C, "<I", 0xFFFFFFFF, "weights_offset"),
    "small stride": (0x10, "<Q", 8, "expert_size"),
    "huge stride": (0x10, "<Q", 1 << 63, "expert_size"),
    "table in the header": (0x18, "<Q", 8, "offset"),
    "table outside": (0x18, "<Q", 1 << 60, "offset"),
    "table unaligned": (0x18, "<Q", 129, "offset"),
    "weights outside": (0x20, "<Q", 1 << 60, "weights_offset"),
    "weights early": (0x20, "<Q", 64, "weights_offset"),
    "extension size": (0x28, "<I", 8, "extension size"),
    "no layers": (0x2C, "<I", 0, "num_layers"),
    "no hidden": (0x30, "<I", 0, "hidden_size"),
    "huge hidden": (0x30, "<I", 0xFFFFFFFF, "expert_size"),
    "no intermediate": (0x34, "<I", 0, "intermediate_size"),
    "no top_k": (0x38, "<I", 0, "top_k"),
    "top_k over E": (0x38, "<I", E + 1, "top_k"),
    "dtype": (0x3C, "<I", 1, "dtype"),
    "granularity": (0x40, "<I", 2, "granularity"),
    "no alignment": (0x44, "<I", 0, "alignment"),
    "routers over the table": (0x48, "<Q", 128, "offset"),
    "routers outside": (0x48, "<Q", 1 << 60, "offset"),
    "scales in the header": (0x50, "<Q", 4, "offset"),
    "file size": (0x58, "<Q", 5, "file size"),
}


def resealed(data):
    (weights,) = struct.unpack_from("<Q", data, 0x20)
    weights = min(weights, len(data))
    crc = zlib.crc32(data[:0x60] + data[0x64:weights])
    return data[:0x60] + struct.pack("<I", crc) + data[0x64:]


@pytest.mark.parametrize("name", BAD)
def test_bad_fields(tmp_path, name):
    offset, form, value, words = BAD[name]
    path = tmp_path / "x.cbi"
    make_cbi(path, "row")
    data = bytearray(path.read_bytes())
    struct.pack_into(form, data, offset, value)
    path.write_bytes(resealed(bytes(data)))
    with pytest.raises(FormatError) as caught:
        CbiFile(path)
    assert words in str(caught.value)
    assert caught.value.offset is not None


def test_bad_checksum(tmp_path):
    path = tmp_path / "x.cbi"
    make_cbi(path)
    data = bytearray(path.read_bytes())
    data[0x1000] ^= 1  # in the padding before the weights
    path.write_bytes(data)
    with pytest.raises(FormatError, match="CRC-32"):
        CbiFile(path)


def test_table_that_is_no_permutation(tmp_path):
    path = tmp_path / "x.cbi"
    header = make_cbi(path)
    for value in (1, -1, L * E):
        data = bytearray(path.read_bytes())
        struct.pack_into("<i", data, header.routing_table_offset, value)
        other = tmp_path / "y.cbi"
        other.write_bytes(resealed(bytes(data)))
        with pytest.raises(FormatError, match="no permutation"):
            CbiFile(other)


@pytest.mark.parametrize("cut", [0, 10, 0x28, 0x64, 5000, 2 * MIB, -1])
def test_truncated(tmp_path, cut):
    path = tmp_path / "x.cbi"
    make_cbi(path)
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(FormatError):
        CbiFile(path)
