"""Whether the processor's own counters can be read."""

from __future__ import annotations

import ctypes
import os
import platform

# perf_event_open has no wrapper in libc.
SYSCALL = {"x86_64": 298, "aarch64": 241}
PERF_TYPE_HARDWARE = 0
COUNT_CYCLES = 0
EXCLUDE_KERNEL_AND_HYPERVISOR = 0b1100000
ATTRIBUTE_BYTES = 128


def why_unavailable() -> str | None:
    """Why cache and TLB misses cannot be counted here; None where they can."""
    if platform.system() != "Linux":
        return f"hardware counters are read through Linux, and this is {platform.system()}"
    number = SYSCALL.get(platform.machine())
    if number is None:
        return f"hardware counters are not read on {platform.machine()}"
    error = _try_cycles(number)
    if error == 0:
        return None
    reason = os.strerror(error)
    if error in (1, 13):  # EPERM, EACCES
        return f"the kernel forbids it ({reason}): lower kernel.perf_event_paranoid"
    return f"the processor shows no counters ({reason}), as in most virtual machines"


def _try_cycles(number: int) -> int:
    """Open a counter of cycles of this process and close it: 0, or errno."""
    libc = ctypes.CDLL(None, use_errno=True)
    # struct perf_event_attr: u32 type, u32 size, u64 config, then flags as a u64 at byte 40.
    attribute = bytearray(ATTRIBUTE_BYTES)
    attribute[0:4] = PERF_TYPE_HARDWARE.to_bytes(4, "little")
    attribute[4:8] = ATTRIBUTE_BYTES.to_bytes(4, "little")
    attribute[8:16] = COUNT_CYCLES.to_bytes(8, "little")
    attribute[40:48] = EXCLUDE_KERNEL_AND_HYPERVISOR.to_bytes(8, "little")
    buffer = (ctypes.c_char * ATTRIBUTE_BYTES).from_buffer(attribute)
    handle = libc.syscall(number, buffer, 0, -1, -1, 0)
    if handle < 0:
        return ctypes.get_errno()
    os.close(handle)
    return 0
