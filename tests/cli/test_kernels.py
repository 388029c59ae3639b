"""``colibri-lab kernels``, and generating on every backend."""

import json

import pytest

from colibri_lab.cli import main
from colibri_lab.kernels import CATALOG


def run(capsys, *arguments):
    status = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_list(capsys):
    status, out, _ = run(capsys, "kernels", "list", "--json")
    found = json.loads(out)["results"]
    assert status == 0
    assert [(row["name"], row["variant"]) for row in found] == [
        (k.name, k.variant) for k in CATALOG
    ]
    status, out, _ = run(capsys, "kernels", "list", "expert_gemm")
    assert [line.split()[1] for line in out.splitlines()[2:]] == ["naive", "tiled", "wmma"]


def test_unknown_names(capsys):
    status, _, err = run(capsys, "kernels", "check", "magic")
    assert status == 2
    assert "kernel is not known" in err
    status, _, err = run(capsys, "kernels", "resources", "silu_mul", "--arch", "sm_1")
    assert status == 2
    assert "architecture is not known" in err


@pytest.fixture
def cuda():
    pytest.importorskip("pycuda", reason="PyCUDA is not installed: make test builds it")
    from colibri_lab import simt

    if simt.has_real_driver():
        pytest.skip("these are about the emulated device")


@pytest.mark.usefixtures("cuda")
def test_check_and_profile(capsys):
    status, out, err = run(capsys, "kernels", "check", "route_topk_warp", "--json")
    document = json.loads(out)
    assert status == 0, err
    assert document["emulated"] is True
    assert document["findings"] == []
    assert {row["status"] for row in document["results"]} == {"passed"}
    keys = {"name", "variant", "dtype", "shape", "worst_error", "tolerance", "status"}
    assert keys <= set(document["results"][0])
    status, out, err = run(capsys, "kernels", "profile", "silu_mul", "--json")
    small, _ = json.loads(out)["results"]
    assert status == 0, err
    # Two loads and a store of 5,000 float32 values, each byte once, four sectors a full warp.
    assert small["bytes_moved"] == small["least_bytes"] == 3 * 5000 * 4
    assert small["sectors_a_request"] == pytest.approx(4, abs=0.05)
    assert small["bank_conflicts"] == 0


@pytest.mark.usefixtures("cuda")
def test_an_unknown_gpu_and_a_tuner_without_one(capsys):
    status, _, err = run(capsys, "kernels", "check", "silu_mul", "--gpu", "Voodoo")
    assert status == 2
    assert "GPU is not known" in err
    status, _, err = run(capsys, "kernels", "tune", "silu_mul")
    assert status == 1
    assert "times mean nothing" in err


@pytest.mark.usefixtures("cuda")
def test_all_backends_write_the_same(capsys, repository):
    texts = {}
    for backend in ("numpy", "cpu", "cuda"):
        status, out, err = run(
            capsys, "infer", "--model", repository / "data/tiny-moe", "--prompt", "for (int i = 0;",
            "--max-new-tokens", "12", "--backend", backend, "--json",
        )  # fmt: skip
        assert status == 0, err
        texts[backend] = json.loads(out)
    assert texts["numpy"]["token_ids"] == texts["cpu"]["token_ids"] == texts["cuda"]["token_ids"]
    assert texts["cuda"]["tokens_per_s"] is None
    assert texts["cpu"]["tokens_per_s"] > 0


@pytest.mark.usefixtures("cuda")
def test_a_sweep_over_all_backends(capsys, repository, tmp_path):
    status, _, err = run(
        capsys, "sweep", "--model", repository / "data/tiny-moe", "--batch-size", "1",
        "--seq-len", "1", "--top-k", "2", "--backend", "numpy,cpu,cuda", "--repeats", "2",
        "--out", tmp_path / "run",
    )  # fmt: skip
    assert status == 0, err
    lines = (tmp_path / "run" / "records.jsonl").read_text().splitlines()
    records = {record["backend"]: record for record in map(json.loads, lines)}
    assert {record["status"] for record in records.values()} == {"ok"}
    cuda = records["cuda"]
    assert cuda["emulated"] is True
    assert cuda["latency_p50_ms"] is cuda["tokens_per_s"] is None
    assert cuda["device_bytes_moved"] >= cuda["device_dram_bytes"] > 0
    assert 0 < cuda["roofline_floor_ms"] < records["cpu"]["roofline_floor_ms"]
    assert records["cpu"]["device_bytes_moved"] is None
    assert cuda["expert_miss_ratio"] == records["cpu"]["expert_miss_ratio"]
