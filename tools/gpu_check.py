"""Check and time every kernel on a real GPU; write what was measured to docs/gpu-results.

    python -m tools.gpu_check [--sdist pycuda-X.tar.gz] [--minutes 8] [--out FOLDER]

Builds PyCUDA where it is missing (from the given source distribution, for a machine that reaches no
registry), holds each kernel against its twin, times it with events beside PyTorch's matrix products
and the measured bandwidth, sets the emulator's sectors beside Nsight Compute's where that is
installed, and runs one sweep. On a machine without a GPU it checks on the emulated device, times
nothing and writes nothing.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import platform
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from colibri_lab.atomic import atomic_writer
from colibri_lab.kernels import CATALOG, Kernel, find
from colibri_lab.kernels.case import Case, unwritten
from colibri_lab.kernels.catalog import DTYPES
from colibri_lab.kernels.check import check
from colibri_lab.kernels.device import Device, on_device, open_device
from colibri_lab.kernels.expert_cases import operands
from colibri_lab.kernels.tune import by_events

OUT = Path(__file__).parents[1] / "docs" / "gpu-results"
REPEATS = 30
# T, H, I, E, K: a small Mixtral's layer and a Qwen-like one, in decode and in prefill.
SHAPES = [
    (tokens, *sizes)
    for sizes in ((1024, 3584, 8, 2), (2048, 1408, 64, 4))
    for tokens in (1, 16, 1024)
]
TIMED = ("expert_gemm_naive", "expert_gemm_tiled", "expert_gemm_wmma", "fused_swiglu_tiled")


@dataclass(frozen=True)
class Timed:
    """One kernel at one shape.   ms : median by events.   floor_ms : least bytes over the measured
    bandwidth, or operations over the library's rate, whichever is longer.   peer_ms : None where
    PyTorch is not installed."""

    kernel: str
    dtype: str
    shape: str
    ms: float
    floor_ms: float
    peer: str
    peer_ms: float | None


class Clock:
    """Says when there is no time left: parts that have not begun are left out, and listed."""

    def __init__(self, minutes: float) -> None:
        self._end = time.monotonic() + 60 * minutes
        self.left_out: list[str] = []

    def allows(self, part: str, seconds: float) -> bool:
        if time.monotonic() + seconds < self._end:
            return True
        self.left_out.append(part)
        return False


def ensure_pycuda(sdist: Path | None) -> None:
    """Install PyCUDA where it is missing, and a GPU's driver is there."""
    if importlib.util.find_spec("pycuda") is not None:
        return
    source = [str(sdist), "--no-index", "--no-build-isolation"] if sdist else ["pycuda"]
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *source], check=True)


def bandwidth_gbps(device: Device, size: int = 1 << 28) -> float:
    """A copy within the device's memory, read and write both counted."""
    driver = device.driver
    source, target = driver.mem_alloc(size), driver.mem_alloc(size)
    driver.memset_d8(source, 1, size)
    ms = by_events(device)(lambda: driver.memcpy_dtod(target, source, size))
    source.free()
    target.free()
    return 2 * size / ms / 1e6


def timed_cases(dtype: str, shape: tuple[int, ...]) -> Iterator[tuple[Kernel, Case]]:
    tokens, hidden, inner, experts, top_k = shape
    rng = np.random.default_rng(0)
    ids = np.argsort(rng.random((tokens, experts)), axis=1)[:, :top_k].astype(np.int32)
    given = operands(DTYPES[dtype], ids, experts, hidden, inner, rng)
    label = f"T {tokens}, H {hidden}, I {inner}, E {experts}, K {top_k}"
    plan = given["plan"]
    rows = {"x": given["x"], "row_ids": plan["tokens"], "expert_offsets": plan["offsets"],
            "expert_slots": None}  # fmt: skip
    y = unwritten((ids.size, inner), DTYPES[dtype])
    for kernel in find(TIMED):
        if dtype not in kernel.tolerance:
            continue
        if kernel.name == "expert_gemm":
            arguments = {**rows, "weights": given["gate"], "y": y, "num_experts": experts,
                         "inner": hidden, "outer": inner}  # fmt: skip
            yield kernel, Case(label, arguments, writes=("y",))
        else:
            arguments = {**rows, "gate_weights": given["gate"], "up_weights": given["up"], "h": y,
                         "num_experts": experts, "hidden_size": hidden,
                         "intermediate_size": inner}  # fmt: skip
            yield kernel, Case(label, arguments, writes=("h",))


def time_kernels(device: Device, gbps: float, clock: Clock) -> Iterator[Timed]:
    for dtype in DTYPES:
        for shape in SHAPES:
            if not clock.allows(f"times of {dtype} {shape}", 30):
                continue
            peer = _torch_products(dtype, shape)
            for kernel, case in timed_cases(dtype, shape):
                arguments = [on_device(device.driver, v) for v in case.arguments.values()]
                function = device.function(kernel, dtype)
                launch = kernel.launch(case, device.capability)
                ms = by_events(device)(partial(device.queue, function, launch, arguments))
                products = 2 if kernel.name == "fused_swiglu" else 1
                peer_ms = peer * products if peer is not None else None
                floor_ms = case.least_bytes / gbps / 1e6
                yield Timed(kernel.entry, dtype, case.label, ms, floor_ms, "torch", peer_ms)


def _torch_products(dtype: str, shape: tuple[int, ...]) -> float | None:
    """Each expert's rows by its gate matrix, one product an expert, in PyTorch (cuBLAS)."""
    if importlib.util.find_spec("torch") is None:
        return None
    import torch

    tokens, hidden, inner, experts, top_k = shape
    generator = torch.Generator().manual_seed(0)
    kind = getattr(torch, dtype)
    ids = torch.rand((tokens, experts), generator=generator).argsort(1)[:, :top_k].flatten()
    x = torch.randn((tokens * top_k, hidden)).to("cuda", kind)
    weights = torch.randn((experts, inner, hidden)).to("cuda", kind)
    counts = torch.bincount(ids, minlength=experts).tolist()

    def run() -> None:
        for expert, rows in enumerate(x.split(counts)):
            if len(rows):
                torch.matmul(rows, weights[expert].T)

    samples = []
    for _ in range(REPEATS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        end.record()
        end.synchronize()
        samples.append(start.elapsed_time(end))
    return statistics.median(samples)


def emulated_counters() -> Any:
    """What the emulated device counts of every kernel, in a process of its own."""
    command = [sys.executable, "-m", "colibri_lab.simt", "--even-with-gpu", "-m", "colibri_lab",
               "kernels", "profile", "--json"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return json.loads(done.stdout)["results"] if done.returncode == 0 else done.stderr[-500:]


def ncu_counters() -> str:
    """Nsight Compute's sectors and conflicts of the same kernels, as it prints them."""
    if shutil.which("ncu") is None:
        return "ncu is not installed"
    metrics = (
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum,"
        "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum,"
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"
    )
    command = ["ncu", "--csv", "--metrics", metrics, sys.executable, "-m", "colibri_lab",
               "kernels", "check", *TIMED]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout[-20000:] if done.returncode == 0 else done.stderr[-500:]


def sweep(folder: Path) -> str:
    root = Path(__file__).parents[1]
    command = [sys.executable, "-m", "colibri_lab", "sweep", "--model", str(root / "data/tiny-moe"),
               "--batch-size", "1,4,16", "--streams", "1,2,4", "--backend", "cuda",
               "--repeats", "30", "--out", str(folder)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr[-500:]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sdist", type=Path, help="PyCUDA's source distribution")
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    clock = Clock(options.minutes)
    ensure_pycuda(options.sdist)
    with open_device() as device:
        checked = list(check(device, CATALOG))
        failed = [f"{c.name} {c.variant} {c.dtype} {c.shape}: {c.why}" for c in checked
                  if c.status != "passed"]  # fmt: skip
        print(f"{device.name}: {len(checked)} cases, {len(failed)} failed", *failed, sep="\n")
        if device.emulated:
            print("there is no GPU here: nothing was timed, and nothing is written")
            return bool(failed)
        gbps = bandwidth_gbps(device)
        timed = [asdict(each) for each in time_kernels(device, gbps, clock)]
        name = device.name
    results = {
        "gpu": name, "python": platform.python_version(), "date": time.strftime("%Y-%m-%d"),
        "cases": len(checked), "failed": failed, "copy_gbps": gbps, "times": timed,
        "emulated_counters": emulated_counters() if clock.allows("emulated counters", 60) else None,
        "ncu": ncu_counters() if clock.allows("ncu", 90) else None,
    }  # fmt: skip
    options.out.mkdir(parents=True, exist_ok=True)
    stem = name.lower().replace(" ", "-")
    if clock.allows("sweep", 60):
        results["sweep"] = sweep(options.out / f"{stem}-sweep")
    results["left_out"] = clock.left_out
    with atomic_writer(options.out / f"{stem}.json") as file:
        file.write(json.dumps(results, indent=1).encode() + b"\n")
    print(f"{options.out / stem}.json")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
