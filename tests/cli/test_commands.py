"""The commands as a user or a script meets them: output, errors, exit statuses."""

import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from colibri_lab.cli import main
from colibri_lab.cli.entry import COMMANDS
from tests.cli.support import run, run_json


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(capsys, command):
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    assert f"colibri-lab {command}" in capsys.readouterr().out.split("Example", 1)[1]


def test_version_and_help_are_quick(tmp_path):
    code = "import sys, colibri_lab.cli.entry as m; m.build_parser(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"pandas", "matplotlib", "pyarrow", "tokenizers", "tqdm", "IPython"}
    assert not heavy & set(done.stdout.split())


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["frobnicate"],
        ["infer"],
        ["infer", "--model", "x"],
        ["infer", "--model", "x", "--prompt", "a", "--max-new-tokens", "many"],
        ["sweep", "--batch-size", "one"],
        ["sweep", "--batch-size", "1"],
        ["report", "run", "-p", "a=1"],
        ["convert", "x"],
    ],
)
def test_wrong_usage(capsys, arguments):
    status, out, err = run(capsys, *arguments)
    assert (status, out) == (2, "")
    assert err.startswith("error: ")
    assert "Traceback" not in err
    status, document = run_json(capsys, *arguments)
    assert status == 2
    assert document["error"]["message"]


def test_doctor(capsys):
    status, document = run_json(capsys, "doctor")
    assert status == 0
    findings = {finding["name"]: finding for finding in document["findings"]}
    assert findings["cores"]["data"] >= 1
    assert findings["read bandwidth, memory"]["status"] == "ok"
    for finding in findings.values():
        assert finding["value"]
        if finding["status"] != "ok":
            assert finding["cost"]
    status, out, _ = run(capsys, "doctor")
    assert status == 0
    assert all(name in out for name in findings)


def test_inspect_checkpoint(capsys, folder):
    status, facts = run_json(capsys, "inspect", folder, "--verify")
    assert status == 0
    assert facts["problems"] == []
    assert facts["num_experts"] == 4
    assert facts["expert_bytes"] == 3 * 16 * 24 * 4
    sizes = [tensor.nbytes for tensor in load_file(folder / "model.safetensors").values()]
    assert facts["stored_bytes"] == sum(sizes)
    assert facts["experts_bytes"] == 2 * 4 * 3 * 16 * 24 * 4
    status, out, _ = run(capsys, "inspect", folder)
    assert status == 0
    assert re.search(r"architecture +MixtralForCausalLM", out)


def test_verify_names_the_tensor(capsys, folder):
    name = "model.layers.1.block_sparse_moe.experts.2.w3.weight"
    tensors = load_file(folder / "model.safetensors")
    tensors[name][3, 4] = np.inf
    save_file(tensors, folder / "model.safetensors")
    status, facts = run_json(capsys, "inspect", folder, "--verify")
    assert status == 1
    assert facts["problems"] == [
        f"tensor {name}: 1 of 384 values are not finite, the first at [3, 4]"
    ]
    assert run(capsys, "inspect", folder)[0] == 0  # without --verify no value is read


@pytest.mark.parametrize("ending", ["colibri", "cbi"])
def test_convert_and_inspect(capsys, folder, tmp_path, ending):
    out = tmp_path / f"experts.{ending}"
    status, facts = run_json(capsys, "convert", folder, out)
    assert status == 0
    assert facts["kind"] == f".{ending}"
    assert facts["file_bytes"] == out.stat().st_size
    status, facts = run_json(capsys, "inspect", out, "--verify")
    assert (status, facts["problems"]) == (0, [])


def test_verify_names_the_expert(capsys, folder, tmp_path):
    from colibri_lab.formats.cbi import CbiFile

    out = tmp_path / "experts.cbi"
    run(capsys, "convert", folder, out)
    with CbiFile(out) as file:
        place = file.address(1, 2) + 16 * 24 * 4  # the first value of up
    data = bytearray(out.read_bytes())
    data[place : place + 4] = np.float32("nan").tobytes()
    out.write_bytes(data)
    status, facts = run_json(capsys, "inspect", out, "--verify")
    assert status == 1
    assert facts["problems"][0].startswith("layer 1, expert 2, up: 1 of 384")


def test_int8_errors_are_measured_on_text(capsys, folder, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("ABCDEFGHIJKLMNOP")
    status, facts = run_json(
        capsys, "convert", folder, tmp_path / "a.cbi", "--quantize", "int8", "--measure", text
    )
    assert status == 0
    rows = facts["int8_errors"]
    assert sum(row["tokens"] for row in rows) == 16 * 2 * 2
    assert all(0 < row["by_row"] < 0.1 for row in rows)


@pytest.mark.parametrize("path", ["/nowhere", "/dev/null"])
def test_nothing_to_inspect(capsys, path):
    status, document = run_json(capsys, "inspect", path)
    assert status == 2
    assert document["error"]["type"].endswith("Error")


def test_output_into_a_folder_that_is_not_there(capsys, folder, tmp_path):
    status, _, err = run(capsys, "convert", folder, tmp_path / "no" / "a.cbi")
    assert status == 2
    assert "No such file" in err
    status, _, err = run(capsys, "convert", folder, tmp_path)
    assert status == 2


def test_sweep_resume_and_dry_run(capsys, folder, tmp_path):
    heldout = tmp_path / "heldout"
    heldout.mkdir()
    for name in ("one", "two"):
        (heldout / f"{name}.txt").write_text("ABCDEFGHIJKLMNOPQRSTUVWXYZ" * 40)
    options = ["sweep", "--model", folder, "--batch-size", "1,2", "--repeats", 3,
               "--out", tmp_path / "run"]  # fmt: skip
    status, plan = run_json(capsys, *options, "--dry-run")
    assert (status, plan["num_cells"]) == (0, 2)
    assert not (tmp_path / "run").exists()
    status, document = run_json(capsys, *options)
    assert status == 0
    assert (document["ran"], document["reused"], document["failed"]) == (2, 0, 0)
    status, document = run_json(capsys, "sweep", "--resume", tmp_path / "run")
    assert (document["ran"], document["reused"]) == (0, 2)
    status, _, err = run(capsys, "sweep", "--resume", tmp_path / "run", "--batch-size", "4")
    assert status == 2
    assert "keeps its own settings" in err


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--batch-size", "0", "batch_size"),
        ("--batch-size", "-4", "batch_size"),
        ("--batch-size", ",", "batch_size"),
        ("--top-k", "5", "top_k"),
        ("--capacity", "tight:1", "capacity"),
        ("--backend", "tpu", "backend"),
        ("--repeats", "0", "repeats"),
    ],
)
def test_bad_sweep(capsys, folder, tmp_path, option, value, words):
    status, _, err = run(
        capsys, "sweep", "--model", folder, f"{option}={value}", "--inputs", "random",
        "--out", tmp_path / "run",
    )  # fmt: skip
    assert status == 2
    assert words in err
    assert not (tmp_path / "run").exists()


def test_a_closed_pipe_ends_quietly(folder):
    reading_end, writing_end = os.pipe()
    os.close(reading_end)  # as when `head` has seen enough
    command = [sys.executable, "-m", "colibri_lab", "inspect", str(folder)]
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        command, stdout=writing_end, stderr=subprocess.PIPE, env=buffered, check=False
    )
    os.close(writing_end)
    assert done.stderr == b""
    assert done.returncode == 1


def test_ctrl_c_is_quiet(capsys, monkeypatch, folder):
    import colibri_lab.models as models

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(models, "load_model", stop)
    status, _, err = run(capsys, "infer", "--model", folder, "--prompt", "A", "--backend", "numpy")
    assert status == 130
    assert err.strip() == "stopped"


def test_module_is_the_command(folder):
    command = [sys.executable, "-m", "colibri_lab", "inspect", str(folder), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["num_layers"] == 2


def test_lab_asks_for_a_sane_port(capsys):
    status, _, err = run(capsys, "lab", "--port", 0)
    assert status == 2
    assert "port" in err


def test_a_text_to_measure_is_read_before_the_work(capsys, folder, tmp_path):
    out = tmp_path / "a.cbi"
    arguments = ["convert", folder, out, "--quantize", "int8", "--measure", "/nowhere/text"]
    status, document = run_json(capsys, *arguments)
    assert (status, document["error"]["path"]) == (2, "/nowhere/text")
    assert not out.exists()
