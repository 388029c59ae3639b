"""The emulated driver, called as any program would: how tests of the analysis launch kernels."""

import ctypes
from pathlib import Path

import numpy as np
import pytest

from colibri_lab.simt.compiler import find_compiler, is_clang

HERE = Path(__file__).parent


splits_vectors = pytest.mark.skipif(
    is_clang(find_compiler()), reason="Clang makes four accesses of one to a float4"
)


class CudaError(Exception):
    pass


class Device:
    """A context of its own, and the modules loaded in it; a fault spoils no other test's."""

    def __init__(self, driver):
        self.driver = driver
        self.context = ctypes.c_void_p()
        self.modules = {}
        self.call("cuInit", 0)
        self.call("cuCtxCreate_v2", ctypes.byref(self.context), 0, 0)

    def close(self):
        self.driver.cuCtxDestroy_v2(self.context)

    def call(self, name, *args):
        code = getattr(self.driver, name)(*args)
        if code:
            text = ctypes.c_char_p()
            self.driver.cuGetErrorString(code, ctypes.byref(text))
            raise CudaError(f"{name}: {code} {(text.value or b'').decode(errors='replace')}")

    def load(self, image):
        module = ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), image)
        return module

    def empty(self, num_bytes):
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(num_bytes))
        return address.value

    def free(self, address):
        self.call("cuMemFree_v2", ctypes.c_uint64(address))

    def put(self, array, room=None):
        """A buffer with the array at its head, of `room` bytes (default: the array's)."""
        array = np.ascontiguousarray(array)
        address = self.empty(room or array.nbytes)
        self.call(
            "cuMemcpyHtoD_v2",
            ctypes.c_uint64(address),
            ctypes.c_void_p(array.ctypes.data),
            ctypes.c_size_t(array.nbytes),
        )
        return address

    def get(self, address, shape, dtype=np.float32):
        array = np.empty(shape, dtype)
        self.call(
            "cuMemcpyDtoH_v2",
            ctypes.c_void_p(array.ctypes.data),
            ctypes.c_uint64(address),
            ctypes.c_size_t(array.nbytes),
        )
        return array

    def launch(self, module, name, *args, grid=1, block=32, shared=0):
        """args : int for a pointer, np.int32 and the like for a value."""
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        held = [np.array(arg, np.uint64 if isinstance(arg, int) else arg.dtype) for arg in args]
        pointers = (ctypes.c_void_p * len(held))(*(one.ctypes.data for one in held))
        sizes = [*_three(grid), *_three(block), shared]
        self.call("cuLaunchKernel", function, *sizes, None, pointers, None)
        self.call("cuCtxSynchronize")


def _three(shape):
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    return shape + (1,) * (3 - len(shape))


def marked_line(file, name):
    """The line of a .cu file here that bears `//! name`."""
    text = (HERE / file).read_text()
    found = [
        i for i, line in enumerate(text.splitlines(), 1) if line.rstrip().endswith(f"//! {name}")
    ]
    assert len(found) == 1, (name, found)
    return found[0]
