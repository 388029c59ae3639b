"""Every kernel on every edge shape; and a checker that catches what is wrong."""

import re
from dataclasses import replace

import numpy as np
import pytest

from colibri_lab.errors import DeviceUnavailable, WorkFailed
from colibri_lab.kernels import CATALOG, find
from colibri_lab.kernels.catalog import DTYPES
from colibri_lab.kernels.check import check, check_case


@pytest.mark.parametrize("kernel", CATALOG, ids=lambda kernel: kernel.entry)
def test_edge_shapes(device, kernel):
    results = list(check(device, [kernel]))
    assert results
    assert [f"{r.dtype}, {r.shape}: {r.why}" for r in results if r.status != "passed"] == []


@pytest.fixture
def broken(device, tmp_path):
    """Checks silu_mul with another source in its place."""
    (kernel,) = find(["silu_mul"])

    def _check(change):
        path = tmp_path / "broken.cu"
        path.write_text(change(kernel.path.read_text(encoding="utf-8")), encoding="utf-8")
        other = replace(kernel, file=str(path.with_suffix("")))
        case = list(kernel.cases(DTYPES["float32"]))[2]
        return check_case(device, other, "float32", case, device.function(other, "float32"))

    return _check


LINE = "h[i] = store<storage>(silu(load(gate[i])) * load(up[i]));"


def swapped(new):
    def change(text):
        assert LINE in text
        return text.replace(LINE, new)

    return change


def test_the_checker_passes_what_is_right(broken):
    assert broken(lambda text: text).status == "passed"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("h[i] = store<storage>(0.0f);", r"h\[\d+\] is 0, not"),
        ("if (i != 7) " + LINE, r"h\[7\] is .*; 1 differ"),  # stale output
        (
            "{" + LINE + " const_cast<storage*>(up)[i] = 1.0f; }",
            "up, an input, was changed",
        ),
        (LINE.replace("silu(load(gate[i]))", "load(gate[i])"), "differ"),
        (LINE.replace("* load(up[i])", "* load(up[i]) * 1.001f"), "differ"),
        ("h[i] = store<storage>(__int_as_float(0x7fffffff));", "is nan"),
    ],
)
def test_the_checker_catches(broken, line, words):
    result = broken(swapped(line))
    assert result.status == "failed"
    assert re.search(words, result.why)


def test_writing_beyond_is_caught(device, tmp_path):
    (kernel,) = find(["dispatch_scatter_stable"])
    path = tmp_path / "beyond.cu"
    text = kernel.path.read_text(encoding="utf-8")
    marked = "  if (threadIdx.x == 0) warp_counts[warps] = expert_offsets[expert];\n"
    assert marked in text
    path.write_text(
        text.replace(marked, marked + "  sorted_slots[num_assignments - 1] = 3;\n"),
        encoding="utf-8",
    )
    other = replace(kernel, file=str(path.with_suffix("")))
    case = next(c for c in kernel.cases(np.float32) if c.label == "some dropped")
    result = check_case(device, other, "float32", case, device.function(other, "float32"))
    assert result.status == "failed"
    assert "sorted_slots was written beyond" in result.why


def test_a_kernel_that_does_not_compile(device, tmp_path):
    (kernel,) = find(["silu_mul"])
    path = tmp_path / "wrong.cu"
    path.write_text("// nothing\n\nint x = 3\nint y;\n", encoding="utf-8")
    with pytest.raises(WorkFailed, match=r"wrong\.cu:[34]"):
        device.function(replace(kernel, file=str(path.with_suffix(""))), "float32")


def test_races_are_found_and_the_kernels_have_none(device, tmp_path):
    """A barrier taken out of the tiled product is named by line; with it nothing is found."""
    if not device.emulated:
        pytest.skip("a real GPU shows no accesses")
    from colibri_lab import simt

    (kernel,) = find(["expert_gemm_tiled"])
    text = kernel.path.read_text(encoding="utf-8")
    lines = text.splitlines()
    barrier = next(n for n, line in enumerate(lines) if line.strip() == "__syncthreads();")
    path = tmp_path / "racy.cu"
    path.write_text("\n".join([*lines[:barrier], "", *lines[barrier + 1 :]]), encoding="utf-8")
    case = next(c for c in kernel.cases(np.float32) if c.label == "all in one expert")
    found = {}
    for name, each in {
        "right": kernel,
        "racy": replace(kernel, file=str(path.with_suffix(""))),
    }.items():
        with simt.observe(counters=False) as seen:
            function = device.function(each, "float32", ("-DWATCHED",))
            check_case(device, each, "float32", case, function)
        found[name] = [str(finding) for finding in seen.findings]
    assert found["right"] == []
    assert any("race" in text and "racy.cu" in text for text in found["racy"])


def test_the_drivers_errors_become_our_own(device):
    (kernel,) = find(["silu_mul"])
    case = next(iter(kernel.cases(np.float32)))
    launch = replace(kernel.launch(case), block=(4096, 1, 1))
    with pytest.raises(WorkFailed, match=r"refused a call[\s\S]*found: "):
        device.launch(device.function(kernel, "float32"), launch, [np.uintp(0)] * 3 + [np.int32(0)])
    from colibri_lab.kernels.device import own_errors

    with pytest.raises(DeviceUnavailable, match="memory is full"), own_errors(device.driver):
        device.driver.mem_alloc(1 << 50)
