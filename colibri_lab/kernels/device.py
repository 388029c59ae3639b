"""The device that kernels run on: a GPU, or without one the emulated driver."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..errors import DeviceUnavailable, InputError, WorkFailed
from .catalog import FOLDER, MACROS, Kernel
from .geometry import Launch

_RETAINED: list[Any] = []  # primary contexts, which live as long as the process


class Device:
    """One device with its primary context current: compiles, and launches.

    emulated : no GPU computes here; times mean nothing.   capability : as ``8.0``.
    """

    def __init__(self, driver: Any, device: Any, *, emulated: bool) -> None:
        self.driver, self.emulated = driver, emulated
        self.name: str = device.name()
        self.capability = "{}.{}".format(*device.compute_capability())
        self._modules: dict[tuple[str, tuple[str, ...]], Any] = {}

    def function(self, kernel: Kernel, dtype: str, options: Sequence[str] = ()) -> Any:
        """A kernel, compiled for a storage dtype; WorkFailed with the compiler's words else."""
        key = (kernel.file, (*MACROS[dtype], *options))
        if key not in self._modules:
            self._modules[key] = self._compile(kernel, key[1])
        return self._modules[key].get_function(kernel.entry)

    def _compile(self, kernel: Kernel, options: Sequence[str]) -> Any:
        from pycuda.compiler import SourceModule
        from pycuda.driver import CompileError

        # Errors then name the file itself, not a copy of it in a folder of temporary files.
        source = f'#line 1 "{kernel.path}"\n{kernel.path.read_text(encoding="utf-8")}'
        try:
            # PyCUDA's own cache does not know what is observed, and the emulated compiler's does.
            return SourceModule(
                source, options=list(options), include_dirs=[str(FOLDER)], no_extern_c=True,
                cache_dir=False if self.emulated else None,
            )  # fmt: skip
        except CompileError as error:
            raise WorkFailed(
                "a kernel does not compile",
                path=kernel.path,
                found=str(error.stderr or error)[-2000:],
                hint="the compiler's words name file and line",
            ) from error

    def queue(self, function: Any, launch: Launch, arguments: Sequence[Any]) -> None:
        """Queue one launch; nothing where the grid is empty.   arguments : as PyCUDA takes them."""
        if not launch.is_empty:
            with own_errors(self.driver):
                function(*arguments, grid=launch.grid, block=launch.block, shared=launch.shared)

    def launch(self, function: Any, launch: Launch, arguments: Sequence[Any]) -> None:
        """Run one launch and wait for it."""
        self.queue(function, launch, arguments)
        with own_errors(self.driver):
            self.driver.Context.synchronize()


@contextmanager
def own_errors(driver: Any) -> Iterator[None]:
    """The driver's errors as the project's own, with what to do."""
    try:
        yield
    except driver.MemoryError as error:
        raise DeviceUnavailable(
            "the device's memory is full",
            found=str(error),
            hint="fewer expert-cache slots, float16, or a smaller batch",
        ) from error
    except driver.LaunchError as error:
        raise WorkFailed(
            "a kernel failed",
            found=str(error),
            hint="the device is unusable in this process from now on; without a GPU, "
            "colibri_lab.simt.observe() says which line did it",
        ) from error
    except (driver.LogicError, driver.RuntimeError) as error:
        raise WorkFailed(
            "the driver refused a call", found=str(error), hint="kernels check tells what works"
        ) from error


@contextmanager
def open_device(gpu: str | None = None) -> Iterator[Device]:
    """The first GPU; on a machine without one, an emulated one.

    gpu : which; None: the environment's COLIBRI_SIMT_GPU, else an A100.

    Its primary context is retained, so that libraries on the same device share it.
    Raises DeviceUnavailable where PyCUDA is not installed or finds no device, InputError for a GPU
    that is not known.
    """
    from .. import simt

    emulated = not simt.has_real_driver()
    if emulated:
        _emulate(gpu)
    try:
        import pycuda.driver as driver
    except ImportError as error:
        raise DeviceUnavailable(
            "PyCUDA is not installed",
            found=str(error),
            hint="pip install 'colibri-lab[gpu]'; without a GPU: docs/cuda-without-a-gpu.md",
        ) from error
    driver.init()
    if driver.Device.count() == 0:
        raise DeviceUnavailable("there is no CUDA device", expected="one or more", found=0)
    device = driver.Device(0)
    context = device.retain_primary_context()
    # PyCUDA would release it as it destroys its own contexts, and leave it on the driver's stack.
    _RETAINED.append(context)
    context.push()
    try:
        yield Device(driver, device, emulated=emulated)
    finally:
        context.pop()


def _emulate(gpu: str | None) -> None:
    from ..simt import build, enable

    try:
        enable(gpu)
    except ValueError as error:
        raise InputError("GPU is not known", found=gpu, expected=str(error)) from error
    except build.BuildError as error:
        raise DeviceUnavailable(
            "the emulated device cannot be built", found=str(error), hint="install g++"
        ) from error


def on_device(driver: Any, value: Any) -> Any:
    """An argument as PyCUDA takes it: arrays in the device's memory, numbers as int32."""
    if value is None:
        return np.uintp(0)
    if not isinstance(value, np.ndarray):
        return np.int32(value)
    memory = driver.mem_alloc(max(value.nbytes, 4))
    if value.nbytes:
        driver.memcpy_htod(memory, np.ascontiguousarray(value))
    return memory
