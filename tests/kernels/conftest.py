"""A device to run kernels on: a GPU, or the emulated one."""

import pytest


@pytest.fixture(scope="module")
def device():
    """Closed again before other modules' tests, some of which reset the device."""
    pytest.importorskip("pycuda", reason="PyCUDA is not installed: make test builds it")
    from colibri_lab.kernels.device import open_device

    with open_device() as opened:
        yield opened
