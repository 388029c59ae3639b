"""Memory of the emulated device, and copies: what they do, what is refused, and how."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from colibri_lab import simt

from .device import CudaError

U64 = ctypes.c_uint64
SIZE = ctypes.c_size_t
POINTER = ctypes.c_void_p


def memory_info(device):
    free, total = SIZE(), SIZE()
    device.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    return free.value, total.value


def test_memory_is_counted_and_limited_as_the_gpu_s(device):
    free, total = memory_info(device)
    assert total == simt.current_gpu().memory_bytes
    buffer = device.empty(10**6)
    assert memory_info(device) == (free - 10**6, total)
    with pytest.raises(CudaError, match=rf"2 out of memory: {free} bytes asked for; .* has"):
        device.empty(free)
    device.free(buffer)
    assert memory_info(device) == (free, total)


@pytest.mark.parametrize("num_bytes", [1, 255, 256, 257, 4096, 10**5])
def test_allocations_are_aligned_and_hold_what_is_put_there(device, num_bytes):
    data = np.random.default_rng(num_bytes).integers(0, 255, num_bytes, np.uint8)
    buffer = device.put(data)
    assert buffer % 256 == 0
    assert (device.get(buffer, num_bytes, np.uint8) == data).all()


def test_new_memory_is_not_zero(device):
    assert np.isnan(device.get(device.empty(400), 100)).all()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda device, buffer: device.free(buffer + 256), "1 invalid argument: no such alloc"),
        (lambda device, buffer: (device.free(buffer), device.free(buffer)), "1 invalid argument"),
        (lambda device, buffer: device.get(buffer + 4, 1024, np.uint8), "its allocation has 1020"),
        (lambda device, buffer: device.get(64, 4, np.uint8), "is in no allocation"),
        (
            lambda device, buffer: (device.free(buffer), device.get(buffer, 4, np.uint8)),
            "is in memory that was freed",
        ),
        (lambda device, buffer: device.empty(0), "0 bytes asked for"),
    ],
)
def test_wrong_addresses_are_refused(device, change, said):
    buffer = device.empty(1024)
    with pytest.raises(CudaError, match=said):
        change(device, buffer)


def test_the_range_of_an_address(device):
    buffer, base, size = device.empty(1000), U64(), SIZE()
    device.call("cuMemGetAddressRange_v2", ctypes.byref(base), ctypes.byref(size), U64(buffer + 9))
    assert (base.value, size.value) == (buffer, 1000)


def test_host_memory_is_registered_once(device):
    array = np.zeros(1000, np.uint8)
    host = POINTER(array.ctypes.data)
    device.call("cuMemHostRegister_v2", host, SIZE(1000), 0)
    with pytest.raises(CudaError, match="712 part or all of the requested memory range is already"):
        device.call("cuMemHostRegister_v2", host, SIZE(10), 0)
    pointer = U64()
    device.call("cuMemHostGetDevicePointer_v2", ctypes.byref(pointer), host, 0)
    device.call("cuMemsetD8_v2", pointer, 7, SIZE(1000))
    device.call("cuMemHostUnregister", host)
    assert (array == 7).all()
    with pytest.raises(CudaError, match="713"):
        device.call("cuMemHostUnregister", host)


@pytest.mark.parametrize(("bits", "dtype"), [(8, np.uint8), (16, np.uint16), (32, np.uint32)])
def test_memset_of_rows(device, bits, dtype):
    value, itemsize = 200 if bits == 8 else 54321, bits // 8
    before = np.arange(8 * 16).astype(dtype).reshape(8, 16)
    buffer = device.put(before)
    pitch, width, height = SIZE(16 * itemsize), SIZE(5), SIZE(3)
    args = (U64(buffer + 2 * itemsize), pitch, value, width, height)
    device.call(f"cuMemsetD2D{bits}_v2", *args)
    expected = before.copy()
    expected[:3, 2:7] = value
    assert (device.get(buffer, (8, 16), dtype) == expected).all()
    with pytest.raises(CudaError, match="what the memset writes is"):
        device.call(f"cuMemsetD2D{bits}_v2", U64(buffer), pitch, value, width, SIZE(9))


class Copy3D(ctypes.Structure):
    """CUDA_MEMCPY3D."""

    _side = ("x", "y", "z", "lod", "type", "host", "device", "array", "context", "pitch", "rows")
    _types = (SIZE, SIZE, SIZE, SIZE, ctypes.c_int, POINTER, U64, POINTER, POINTER, SIZE, SIZE)
    _fields_ = (
        *((f"from_{name}", kind) for name, kind in zip(_side, _types, strict=True)),
        *((f"to_{name}", kind) for name, kind in zip(_side, _types, strict=True)),
        ("width", SIZE),
        ("height", SIZE),
        ("depth", SIZE),
    )


HOST, DEVICE = 1, 2


def test_a_copy_of_three_dimensions(device):
    cube = np.random.default_rng(3).integers(0, 255, (4, 6, 8), np.uint8)
    buffer = device.put(np.zeros((3, 5, 16), np.uint8))
    copy = Copy3D(from_type=HOST, from_host=cube.ctypes.data, from_pitch=8, from_rows=6)
    copy.from_x, copy.from_y, copy.from_z = 1, 2, 1
    copy.to_type, copy.to_device, copy.to_pitch, copy.to_rows = DEVICE, buffer, 16, 5
    copy.to_x = 3
    copy.width, copy.height, copy.depth = 6, 4, 3
    device.call("cuMemcpy3D_v2", ctypes.byref(copy))
    expected = np.zeros((3, 5, 16), np.uint8)
    expected[:, :4, 3:9] = cube[1:4, 2:6, 1:7]
    assert (device.get(buffer, (3, 5, 16), np.uint8) == expected).all()
    copy.depth = 4
    with pytest.raises(CudaError, match="the copy's destination is 294 bytes, and its allocation"):
        device.call("cuMemcpy3D_v2", ctypes.byref(copy))


def test_arrays_hold_what_is_copied_there(device):
    data = np.arange(24, dtype=np.float32)
    made, back = POINTER(), np.zeros(24, np.float32)
    descriptor = (SIZE * 3)(24, 1, (1 << 32) | 0x20)  # width, height; one channel of floats
    device.call("cuArrayCreate_v2", ctypes.byref(made), descriptor)
    device.call("cuMemcpyHtoA_v2", made, SIZE(0), POINTER(data.ctypes.data), SIZE(96))
    device.call("cuMemcpyAtoH_v2", POINTER(back.ctypes.data), made, SIZE(0), SIZE(96))
    assert (back == data).all()
    device.call("cuArrayDestroy", made)
    with pytest.raises(CudaError, match="400 invalid resource handle: no such array"):
        device.call("cuArrayDestroy", made)
