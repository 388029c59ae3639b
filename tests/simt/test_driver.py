"""What the driver refuses, and how it says so: launches, faults, contexts, modules."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import numpy as np
import pytest

from colibri_lab import simt

from .device import CudaError
from .test_driver_memory import memory_info

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


PRIMARY = """
import ctypes
from colibri_lab import simt
simt.enable()
cuda = ctypes.CDLL(None)
cuda.cuInit(0)
handles = [ctypes.c_void_p(), ctypes.c_void_p()]
codes = [cuda.cuDevicePrimaryCtxRetain(ctypes.byref(handle), 0) for handle in handles]
codes.append(cuda.cuDevicePrimaryCtxRelease_v2(0))
codes += [cuda.cuCtxPushCurrent_v2(handles[0]), cuda.cuCtxPopCurrent_v2(None)]
codes += [cuda.cuDevicePrimaryCtxRelease_v2(0) for _ in range(2)]
print(codes, handles[0].value == handles[1].value)
"""


def test_the_primary_context_is_one_and_counted():
    """In a process of its own: others may hold it here."""
    done = subprocess.run(
        [sys.executable, "-c", PRIMARY], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[0, 0, 0, 0, 0, 0, 201] True"


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
