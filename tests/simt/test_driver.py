"""What the driver refuses, and how it says so: memory, copies, launches, contexts, modules."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from colibri_lab import simt

from .device import CudaError

U64 = ctypes.c_uint64
SIZE = ctypes.c_size_t
POINTER = ctypes.c_void_p


@pytest.fixture
def module(device, plain):
    return device.load(plain("driver.cu"))


# ---- the device ---------------------------------------------------------------------------------


def test_the_device_says_that_it_is_emulated(device):
    name = ctypes.create_string_buffer(100)
    device.call("cuDeviceGetName", name, 100, 0)
    assert name.value.decode() == f"{simt.current_gpu().name} (emulated on the CPU)"


def test_there_is_one_device(device):
    with pytest.raises(CudaError, match="101 invalid device ordinal: there is one device"):
        device.call("cuDeviceGet", ctypes.byref(ctypes.c_int()), 1)


def test_a_device_is_found_by_its_bus(device):
    bus, found = ctypes.create_string_buffer(32), ctypes.c_int(-1)
    device.call("cuDeviceGetPCIBusId", bus, 32, 0)
    device.call("cuDeviceGetByPCIBusId", ctypes.byref(found), bus.value)
    assert found.value == 0
    with pytest.raises(CudaError, match="101"):
        device.call("cuDeviceGetByPCIBusId", ctypes.byref(found), b"0000:99:00.0")


# ---- memory -------------------------------------------------------------------------------------


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
    device.call("cuMemHostUnregister", host)
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


# ---- launches -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        (
            {"block": (1025, 1, 1)},
            "1 invalid argument: the block's x is 1025; it must be 1 to 1024",
        ),
        ({"block": (32, 64, 1)}, "1 invalid argument: a block of 32 x 64 x 1 = 2048 threads"),
        ({"block": (1, 1, 65)}, "the block's z is 65"),
        ({"block": (0, 1, 1)}, "the block's x is 0"),
        ({"grid": (1, 65536)}, "the grid's y is 65536"),
        ({"grid": (0, 1)}, "the grid's x is 0"),
        ({"shared": 48 * 1024 + 1}, "1 invalid argument: 0 bytes of static and 49153 of dynamic"),
    ],
)
def test_a_launch_that_no_gpu_takes(device, module, shape, said):
    with pytest.raises(CudaError, match=said):
        device.launch(module, "outside", device.empty(400), np.int32(0), **shape)


def test_launch_bounds_hold(device, module):
    buffer = device.empty(4)
    device.launch(module, "bounded", buffer, block=64)
    assert device.get(buffer, 1, np.int32)[0] == 64
    with pytest.raises(CudaError, match=r"701 too many resources .* declares __launch_bounds__"):
        device.launch(module, "bounded", buffer, block=65)


def function(device, module, name):
    found = POINTER()
    device.call("cuModuleGetFunction", ctypes.byref(found), module, name.encode())
    return found


def attribute(device, handle, number):
    value = ctypes.c_int()
    device.call("cuFuncGetAttribute", ctypes.byref(value), number, handle)
    return value.value


def test_attributes_of_a_function(device, module):
    handle = function(device, module, "with_shared")
    major, minor = simt.current_gpu().compute_capability
    assert attribute(device, handle, 0) == 1024
    assert attribute(device, handle, 1) == 1024  # 256 integers
    assert attribute(device, handle, 2) == 16  # constant memory
    assert attribute(device, handle, 4) == 0  # registers: only a GPU's compiler knows
    assert attribute(device, handle, 6) == 10 * major + minor
    assert attribute(device, handle, 8) == 47 * 1024  # dynamic shared memory
    assert attribute(device, function(device, module, "bounded"), 0) == 64


def test_more_shared_memory_must_be_asked_for(device, module):
    handle, buffer = function(device, module, "with_shared"), device.empty(1024)
    most = simt.current_gpu().limits.shared_per_block_optin_bytes - 1024
    with pytest.raises(CudaError, match=r"MAX_DYNAMIC_SHARED_SIZE_BYTES was set"):
        device.launch(module, "with_shared", buffer, block=256, shared=most)
    with pytest.raises(CudaError, match=f"may have {most}"):
        device.call("cuFuncSetAttribute", handle, 8, most + 1)
    device.call("cuFuncSetAttribute", handle, 8, most)
    device.launch(module, "with_shared", buffer, block=256, shared=most)
    assert (device.get(buffer, 256, np.int32) == 2 * np.arange(256)).all()


@pytest.mark.parametrize(("threads", "shared"), [(32, 0), (100, 0), (1024, 0), (256, 30000)])
def test_occupancy_without_registers(device, module, threads, shared):
    blocks = ctypes.c_int()
    handle = function(device, module, "with_shared")
    name = "cuOccupancyMaxActiveBlocksPerMultiprocessor"
    device.call(name, ctypes.byref(blocks), handle, threads, SIZE(shared))
    limits = simt.current_gpu().limits
    used = 1024 + shared + limits.reserved_shared_per_block_bytes
    assert blocks.value == min(
        limits.blocks_per_multiprocessor,
        limits.threads_per_multiprocessor // (-(-threads // 32) * 32),
        limits.shared_per_multiprocessor_bytes // used,
    )


def packed(device, module, name, data, size):
    held = ctypes.create_string_buffer(data, len(data))
    length = SIZE(size)
    pointers = (1, ctypes.addressof(held), 2, ctypes.addressof(length), 0)
    extra = (POINTER * 5)(*pointers)
    handle = function(device, module, name)
    device.call("cuLaunchKernel", handle, 1, 1, 1, 1, 1, 1, 0, None, None, extra)
    device.call("cuCtxSynchronize")


def test_packed_arguments_are_each_at_their_alignment(device, module):
    out = device.empty(32)
    layout = np.dtype("i1,f8,i2,i8,u8", align=True)
    data = np.array((-3, 0.5, -300, 2**40, out), layout).tobytes()
    packed(device, module, "mixed", data, len(data))
    assert device.get(out, 4, np.float64).tolist() == [-3, 0.5, -300, 2**40]
    with pytest.raises(CudaError, match="'mixed' takes 5 arguments in 40 bytes, and got 39"):
        packed(device, module, "mixed", data, 39)


# ---- faults -------------------------------------------------------------------------------------


def test_a_fault_sticks_until_it_is_cleared(device, module):
    buffer, other = device.put(np.zeros(4, np.int32)), device.put(np.ones(4, np.int32))
    with pytest.raises(CudaError, match=r"700 an illegal memory access .* kernel outside"):
        device.launch(module, "outside", buffer, np.int32(60), block=8)
    with pytest.raises(CudaError, match=r"cuMemAlloc_v2: 700 .* kernel outside"):
        device.empty(16)
    fault = simt.last_fault()
    assert (fault.code, fault.block, fault.thread) == (700, (0, 0, 0), (4, 0, 0))
    assert "driver.cu:" in fault.message
    simt.clear_fault()
    assert simt.last_fault() is None
    assert (device.get(other, 4, np.int32) == 1).all()


def test_a_fault_leaves_other_contexts_alone(device, module):
    with pytest.raises(CudaError, match="700"):
        device.launch(module, "outside", device.empty(16), np.int32(60))
    second = POINTER()
    device.call("cuCtxCreate_v2", ctypes.byref(second), 0, 0)
    device.empty(16)
    device.call("cuCtxDestroy_v2", second)
    with pytest.raises(CudaError, match="700"):
        device.call("cuCtxSynchronize")
    simt.clear_fault()


# ---- contexts, modules --------------------------------------------------------------------------


def test_without_a_context_calls_are_refused(device):
    popped = POINTER()
    device.call("cuCtxPopCurrent_v2", ctypes.byref(popped))
    with pytest.raises(CudaError, match="201 invalid device context"):
        memory_info(device)
    with pytest.raises(CudaError, match="201 invalid device context"):
        device.call("cuCtxPopCurrent_v2", ctypes.byref(popped))
    device.call("cuCtxPushCurrent_v2", device.context)
    memory_info(device)


def test_a_destroyed_context_is_recognised(device):
    second = POINTER()
    device.call("cuCtxCreate_v2", ctypes.byref(second), 0, 0)
    free, _ = memory_info(device)
    device.empty(1000)
    device.call("cuCtxDestroy_v2", second)
    assert memory_info(device)[0] == free  # what it held was freed
    with pytest.raises(CudaError, match="709 context is destroyed"):
        device.call("cuCtxPushCurrent_v2", second)


def test_the_primary_context_is_one_and_counted(device):
    handles = [POINTER(), POINTER()]
    for handle in handles:
        device.call("cuDevicePrimaryCtxRetain", ctypes.byref(handle), 0)
    assert handles[0].value == handles[1].value != device.context.value
    device.call("cuDevicePrimaryCtxRelease_v2", 0)
    device.call("cuCtxPushCurrent_v2", handles[0])
    device.call("cuCtxPopCurrent_v2", None)
    device.call("cuDevicePrimaryCtxRelease_v2", 0)
    with pytest.raises(CudaError, match="201"):
        device.call("cuDevicePrimaryCtxRelease_v2", 0)


def variable(device, module, name):
    address, size = U64(), SIZE()
    device.call("cuModuleGetGlobal_v2", ctypes.byref(address), ctypes.byref(size), module, name)
    return address.value, size.value


def test_variables_of_a_module_are_its_own(device, module, plain):
    other = device.load(plain("driver.cu"))
    address, size = variable(device, module, b"factors")
    assert size == 16
    new = np.array([2, 4, 6, 8], np.int32)
    device.call("cuMemcpyHtoD_v2", U64(address), POINTER(new.ctypes.data), SIZE(16))
    for one, expected in ((module, [10, 20, 30, 40]), (other, [5, 10, 15, 20])):
        buffer = device.put(np.ones(4, np.int32))
        device.launch(one, "scale", buffer, block=4)
        assert device.get(buffer, 4, np.int32).tolist() == expected
    with pytest.raises(CudaError, match="500 named symbol not found: the module has no variable"):
        variable(device, module, b"nothing")


def test_an_unknown_kernel_is_named_with_the_known_ones(device, module):
    with pytest.raises(CudaError, match=r"500 .* no kernel 'sub'; the module has: .*add"):
        function(device, module, "sub")


def test_an_unloaded_module_is_recognised(device, module):
    handle = function(device, module, "bounded")
    device.call("cuModuleUnload", module)
    with pytest.raises(CudaError, match="no such module"):
        function(device, module, "bounded")
    with pytest.raises(CudaError, match="no such function"):
        attribute(device, handle, 0)


@pytest.mark.parametrize(
    ("image", "said"),
    [
        (b"//\n// Generated by NVIDIA NVVM Compiler\n.version 8.0\n", "218 .* the image is PTX"),
        (b"nonsense" * 20, "200 .* the image is no shared object"),
        (
            b"\x7fELF\x02\x01\x01" + bytes(11) + b"\xbe\x00" + bytes(80),
            "209 .*a GPU's machine code",
        ),
    ],
)
def test_what_is_no_image_of_ours_is_refused(device, image, said):
    with pytest.raises(CudaError, match=said):
        device.load(image)


def test_what_is_not_emulated_says_so(device):
    with pytest.raises(CudaError, match="801 operation not supported: cuTexRefCreate is not emu"):
        device.call("cuTexRefCreate", ctypes.byref(POINTER()))


def test_ten_thousand_launches_and_copies_leave_nothing(device, module):
    def resident():
        with open("/proc/self/statm") as file:  # noqa: PTH123 - not a file of ours
            return int(file.read().split()[1]) * 4096

    def some(count):
        for _ in range(count):
            buffer = device.put(np.zeros(4, np.int32))
            device.launch(module, "scale", buffer, block=4)
            device.free(buffer)

    some(2000)
    before = resident()
    some(10_000)
    assert resident() - before < 2 << 20
