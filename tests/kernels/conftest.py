"""A device to run kernels on: a GPU, or the emulated one."""

import pytest


@pytest.fixture(scope="session")
def device():
    """Open for the whole session: the context stays current, as PyCUDA wants it."""
    pytest.importorskip("pycuda", reason="PyCUDA is not installed: make test builds it")
    from colibri_lab.kernels.device import open_device

    with open_device() as opened:
        yield opened
