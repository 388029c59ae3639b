"""The CUDA kernels: what there is, held against their NumPy twins, and what they do to memory.

Without a GPU they run on the emulated driver: results and counters are exact, and there are no
times. ``check`` also looks for races, bad accesses and barriers that not all threads meet."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from ..errors import CheckFailed
from .output import note, print_json, print_table

if TYPE_CHECKING:
    from ..kernels import Kernel
    from ..kernels.check import Checked
    from ..kernels.device import Device

EXAMPLE = """Examples:
  colibri-lab kernels list
  colibri-lab kernels check route_topk dispatch_scatter
  colibri-lab kernels profile expert_gemm_tiled --lines
  colibri-lab kernels resources --arch sm_80,sm_90"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listed = actions.add_parser("list", help="names, variants, dtypes, tolerances")
    check = actions.add_parser("check", help="against the twins, on every edge shape")
    profile = actions.add_parser("profile", help="sectors, conflicts, bytes, by source line")
    profile.add_argument("--shape", default="", metavar="LABEL", help="a case, as check names it")
    profile.add_argument("--lines", action="store_true", help="by source line")
    resources = actions.add_parser("resources", help="registers, spills, occupancy, by nvcc")
    resources.add_argument("--arch", default="", metavar="A,B,…", help="default: sm_75 to sm_90")
    tune = actions.add_parser("tune", help="the fastest block size on this GPU")
    for action in (check, profile, tune):
        action.add_argument("--gpu", metavar="NAME", help="that is emulated; default: A100")
    for action in (listed, check, profile, resources, tune):
        action.add_argument("names", nargs="*", metavar="NAME", help="default: all")
        action.add_argument("--json", action="store_true", help="one JSON document")


def run(options: argparse.Namespace) -> None:
    actions = {"list": _list, "check": _check, "profile": _profile, "tune": _tune,
               "resources": _resources}  # fmt: skip
    actions[options.action](options)


def _list(options: argparse.Namespace) -> None:
    from ..kernels import find

    rows = [
        {"name": k.name, "variant": k.variant, "dtypes": list(k.tolerance), "file": k.path.name,
         "tolerance": {name: asdict(t) for name, t in k.tolerance.items()}}
        for k in find(options.names)
    ]  # fmt: skip
    if options.json:
        print_json({"results": rows})
        return
    print_table(
        ("name", "variant", "dtypes", "file"),
        ((r["name"], r["variant"] or "-", ", ".join(r["dtypes"]), r["file"]) for r in rows),
    )


def _check(options: argparse.Namespace) -> None:
    from ..kernels import find
    from ..kernels.device import open_device

    kernels = find(options.names)
    with open_device(options.gpu) as device:
        findings: list[str] = []
        results = list(_progress(_checked(device, kernels, findings)))
        emulated, name = device.emulated, device.name
    failed = [result for result in results if result.status != "passed"]
    if options.json:
        document = {"results": [asdict(result) for result in results], "findings": findings}
        print_json({"device": name, "emulated": emulated, **document})
    else:
        _print_checked(results)
        for text in findings:
            print(text)
        print(f"\n{len(results)} cases on {name}: {len(failed)} failed, {len(findings)} findings")
    if failed or findings:
        raise CheckFailed(
            "a kernel is wrong",
            expected="every case as its twin has it, and nothing found",
            found=f"{len(failed)} cases, {len(findings)} findings",
        )


def _checked(device: Device, kernels: Sequence[Kernel], findings: list[str]) -> Iterator[Checked]:
    """Every case; on the emulated device with its accesses watched."""
    from ..kernels.check import check

    if not device.emulated:
        yield from check(device, kernels)
        return
    from .. import simt

    with simt.observe(counters=False) as seen:
        yield from check(device, kernels)
    findings += [str(finding) for finding in seen.findings]


def _progress(results: Iterator[Checked]) -> Iterator[Checked]:
    name = ""
    for result in results:
        if name != (name := f"{result.name} {result.variant} {result.dtype}"):
            note(f"checking {name}")
        yield result


def _print_checked(results: list[Checked]) -> None:
    """A row for each kernel and dtype, and one for each case that failed."""
    groups: dict[tuple[str, str, str], list[Checked]] = {}
    for result in results:
        groups.setdefault((result.name, result.variant, result.dtype), []).append(result)
    rows = []
    for (name, variant, dtype), cases in groups.items():
        worst = max(cases, key=lambda case: case.worst_error)
        passed = sum(case.status == "passed" for case in cases)
        rows.append((name, variant or "-", dtype, f"{passed} of {len(cases)}", worst.worst_error,
                     worst.tolerance, worst.shape))  # fmt: skip
    print_table(("name", "variant", "dtype", "passed", "worst error", "allowed", "at"), rows)
    for result in results:
        if result.status != "passed":
            print(f"{result.name} {result.variant} {result.dtype}, {result.shape}: {result.why}")


def _profile(options: argparse.Namespace) -> None:
    from ..kernels import find
    from ..kernels.device import open_device
    from ..kernels.profile import profile

    with open_device(options.gpu) as device:
        found = list(profile(device, find(options.names), options.shape))
        name = device.name
    if options.json:
        print_json({"device": name, "emulated": True, "results": [asdict(r) for r, _ in found]})
        return
    print_table(
        ("kernel", "dtype", "shape", "bytes", "least", "ratio", "sectors", "conflicts", "flops",
         "lanes", "findings"),
        ((f"{r.name} {r.variant}".strip(), r.dtype, r.shape, r.bytes_moved, r.least_bytes,
          r.bytes_moved / max(r.least_bytes, 1), r.sectors_a_request, r.bank_conflicts, r.flops,
          r.active_lanes, len(r.findings)) for r, _ in found),
    )  # fmt: skip
    print(f"\nCounters of {name}; no times. sectors: 32-byte pieces a warp's access touches, mean.")
    if options.lines:
        for _, lines in found:
            print(f"\n{lines}")


def _tune(options: argparse.Namespace) -> None:
    from ..kernels import find
    from ..kernels.device import open_device
    from ..kernels.tune import by_events, tune

    with open_device(options.gpu) as device:
        found = list(tune(device, find(options.names), by_events(device)))
    if options.json:
        print_json({"device": device.name, "results": [asdict(each) for each in found]})
        return
    print_table(
        ("kernel", "dtype", "shape", "threads", "ms", "table", "table ms"),
        ((e.entry, e.dtype, e.shape, e.threads, e.ms, e.table_threads, e.table_ms) for e in found),
    )


def _resources(options: argparse.Namespace) -> None:
    from ..kernels import find
    from ..kernels.resources import ARCHITECTURES, resources

    chosen = [name for name in options.arch.split(",") if name] or list(ARCHITECTURES)
    found = list(resources(find(options.names), chosen))
    if options.json:
        print_json({"results": [asdict(each) for each in found]})
        return
    print_table(
        ("kernel", "dtype", "arch", "registers", "spills", "shared", "threads", "occupancy"),
        ((e.entry, e.dtype, e.arch, e.registers, e.spill_bytes, e.shared_bytes, e.threads,
          e.occupancy) for e in found),
    )  # fmt: skip
