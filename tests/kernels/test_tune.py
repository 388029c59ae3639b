"""The tuner chooses what its timer says is fastest, and times nothing that is emulated."""

from dataclasses import dataclass

import pytest

from colibri_lab.errors import DeviceUnavailable, WorkFailed
from colibri_lab.kernels import find
from colibri_lab.kernels.tune import tune


def test_an_emulated_device_is_not_tuned(device):
    if not device.emulated:
        pytest.skip("this device can be tuned")
    with pytest.raises(DeviceUnavailable, match="times mean nothing"):
        list(tune(device, find(["silu_mul"]), lambda work: 0.0))


@dataclass
class Fake:
    """A device that only keeps what is launched, and refuses blocks over a size."""

    driver: object
    most: int = 512
    emulated: bool = False
    capability: str = "8.0"
    block: int = 0

    def function(self, kernel, dtype):
        return kernel.entry

    def queue(self, function, launch, arguments):
        if launch.block[0] > self.most:
            raise WorkFailed("the driver refused a call")
        self.block = launch.block[0]


def test_the_fastest_block_wins(device):
    fake = Fake(device.driver)
    times = {32: 9.0, 64: 7.0, 128: 2.0, 256: 3.0, 512: 8.0}

    def timer(work):
        work()
        return times[fake.block]

    found = list(tune(fake, find(["route_topk_warp", "expert_gemm_tiled"]), timer))
    assert [each.entry for each in found] == ["route_topk_warp"]  # tiles have a block of their own
    (best,) = found
    assert (best.threads, best.ms) == (128, 2.0)
    assert best.refused == (1024,)
    assert best.table_ms == times[best.table_threads]
