"""GPUs whose limits and rates the emulated device may take.

Sources. Limits by compute capability: CUDA C++ Programming Guide, "Technical Specifications per
Compute Capability". The rest: NVIDIA's data sheets and architecture white papers (T4: Turing; A10,
RTX 3090: Ampere GA102; A100: Ampere GA100; L4, L40S, RTX 4090: Ada; H100, H200: Hopper). Memory is
what `nvidia-smi` prints for such a card, tensor rates are dense, with float32 accumulation.
"""

from __future__ import annotations

from dataclasses import dataclass

_MIB = 1 << 20
DEFAULT = "A100"


@dataclass(frozen=True)
class Limits:
    """What a compute capability allows."""

    threads_per_multiprocessor: int
    blocks_per_multiprocessor: int
    shared_per_multiprocessor_bytes: int
    shared_per_block_optin_bytes: int
    reserved_shared_per_block_bytes: int


LIMITS = {
    (7, 5): Limits(1024, 16, 64 << 10, 64 << 10, 0),
    (8, 0): Limits(2048, 32, 164 << 10, 163 << 10, 1 << 10),
    (8, 6): Limits(1536, 16, 100 << 10, 99 << 10, 1 << 10),
    (8, 9): Limits(1536, 24, 100 << 10, 99 << 10, 1 << 10),
    (9, 0): Limits(2048, 32, 228 << 10, 227 << 10, 1 << 10),
}


@dataclass(frozen=True)
class Gpu:
    """One GPU.

    compute_capability : major and minor.
    l2_bytes : the whole level-2 cache.
    bandwidth_gbps : of its memory, 1e9 bytes a second.
    fp32_tflops, fp16_tensor_tflops : peak rates, 1e12 operations a second.
    """

    name: str
    compute_capability: tuple[int, int]
    multiprocessors: int
    memory_bytes: int
    l2_bytes: int
    bandwidth_gbps: float
    fp32_tflops: float
    fp16_tensor_tflops: float
    clock_mhz: int
    memory_clock_mhz: int
    bus_bits: int

    @property
    def limits(self) -> Limits:
        return LIMITS[self.compute_capability]

    @property
    def device_name(self) -> str:
        """What the emulated device calls itself: nobody may take it for the card."""
        return f"{self.name} (emulated on the CPU)"


# name, capability, SMs, memory MiB, L2 MiB, GB/s, float32, float16 tensor, MHz, memory MHz, bus
_ROWS = (
    ("T4", (7, 5), 40, 15360, 4, 320, 8.1, 65, 1590, 5001, 256),
    ("A10", (8, 6), 72, 23028, 6, 600, 31.2, 125, 1695, 6251, 384),
    ("A100", (8, 0), 108, 40960, 40, 1555, 19.5, 312, 1410, 1215, 5120),
    ("A100-80GB", (8, 0), 108, 81920, 40, 2039, 19.5, 312, 1410, 1593, 5120),
    ("RTX 3090", (8, 6), 82, 24576, 6, 936, 35.6, 71, 1695, 9751, 384),
    ("RTX 4090", (8, 9), 128, 24564, 72, 1008, 82.6, 165.2, 2520, 10501, 384),
    ("L4", (8, 9), 58, 23034, 48, 300, 30.3, 121, 2040, 6251, 192),
    ("L40S", (8, 9), 142, 46068, 96, 864, 91.6, 362, 2520, 9001, 384),
    ("H100", (9, 0), 132, 81559, 50, 3350, 67, 989, 1980, 2619, 5120),
    ("H200", (9, 0), 132, 143771, 50, 4800, 67, 989, 1980, 3201, 6144),
)

GPUS = {
    name: Gpu(name, capability, multiprocessors, memory * _MIB, l2 * _MIB, *rest)
    for name, capability, multiprocessors, memory, l2, *rest in _ROWS
}


def _plain(name: str) -> str:
    return name.lower().replace(" ", "").replace("-", "").replace("_", "").replace("rtx", "")


def find(name: str) -> Gpu:
    """The GPU of a name; case, blanks, hyphens and "RTX" do not matter.

    raises : ValueError for an unknown one.
    """
    for gpu in GPUS.values():
        if _plain(gpu.name) == _plain(name):
            return gpu
    raise ValueError(f"gpu: one of {', '.join(GPUS)} expected, found {name!r}")


L2_WAYS = 16  # not published for any of them: what measurements of several generations agree on


def l2_of(gpu: Gpu, l2_bytes: int | None = None) -> tuple[int, int, int]:
    """Bytes (or others), ways and multiprocessors, for the model of the L2 cache."""
    return l2_bytes or gpu.l2_bytes, L2_WAYS, gpu.multiprocessors


def attributes(gpu: Gpu) -> dict[int, int]:
    """The device's CUdevice_attribute numbers and their values; all others are 0."""
    limits = gpu.limits
    major, minor = gpu.compute_capability
    return {
        1: 1024,  # threads a block
        2: 1024, 3: 1024, 4: 64,  # its axes
        5: 2**31 - 1, 6: 65535, 7: 65535,  # the grid's
        8: 48 << 10,  # shared memory of a block that asks for nothing
        9: 64 << 10,  # constant memory
        10: 32,  # threads a warp
        11: 2**31 - 1,  # bytes of pitch
        12: 65536,  # registers a block
        13: gpu.clock_mhz * 1000,
        14: 512,  # alignment of textures
        15: 1,  # copies overlap with kernels
        16: gpu.multiprocessors,
        19: 1,  # maps host memory
        30: 512,  # alignment of surfaces
        31: 1,  # concurrent kernels
        36: gpu.memory_clock_mhz * 1000,
        37: gpu.bus_bits,
        38: gpu.l2_bytes,
        39: limits.threads_per_multiprocessor,
        40: 2,  # copy engines
        41: 1,  # one address space
        51: 32,  # alignment of a texture's pitch
        75: major, 76: minor,
        78: 1,  # stream priorities
        79: 1, 80: 1,  # L1 caches global and local memory
        81: limits.shared_per_multiprocessor_bytes,
        82: 65536,  # registers a multiprocessor
        83: 1,  # managed memory
        90: 1,  # preemption
        91: 1,  # the host's pointers to registered memory serve the device
        95: 1,  # cooperative launches
        97: limits.shared_per_block_optin_bytes,
        99: 1,  # registers host memory
        106: limits.blocks_per_multiprocessor,
        111: limits.reserved_shared_per_block_bytes,
    }  # fmt: skip
