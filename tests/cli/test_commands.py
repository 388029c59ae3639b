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
from colibri_lab.models import load_model
from tests.support import write_checkpoint

TOKENIZER_VOCABULARY = 64


@pytest.fixture
def folder(tmp_path):
    """A tiny checkpoint with a tokenizer of single characters."""
    path = tmp_path / "model"
    write_checkpoint(path)
    write_tokenizer(path)
    return path


def write_tokenizer(path):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    letters = [chr(33 + index) for index in range(TOKENIZER_VOCABULARY)]
    tokenizer = Tokenizer(models.BPE({letter: i for i, letter in enumerate(letters)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(path / "tokenizer.json"))


def run(capsys, *arguments):
    """Exit status, standard output, standard error."""
    status = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def run_json(capsys, *arguments):
    """Exit status and the one JSON document; whatever else is printed there is a fault."""
    status, out, _ = run(capsys, *arguments, "--json")
    return status, json.loads(out)


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


@pytest.mark.parametrize("backend", ["cpu", "numpy"])
def test_infer(capsys, folder, backend):
    model = load_model(folder)
    ids = model.tokenizer.encode("HELLO")
    wanted = model.generate(ids, 9)
    status, document = run_json(
        capsys, "infer", "--model", folder, "--prompt", "HELLO", "--max-new-tokens", 9,
        "--backend", backend,
    )  # fmt: skip
    assert status == 0
    assert document["token_ids"] == wanted.token_ids
    assert document["text"] == model.tokenizer.decode(wanted.token_ids)
    status, out, err = run(
        capsys, "infer", "--model", folder, "--prompt", "HELLO", "--max-new-tokens", 9,
        "--backend", backend,
    )  # fmt: skip
    assert out == f"HELLO{document['text']}\n"
    assert "new tokens/s" in err


def test_infer_with_experts_metrics_and_table(capsys, folder, tmp_path):
    run(capsys, "convert", folder, tmp_path / "e.colibri")
    status, document = run_json(
        capsys, "infer", "--model", folder, "--prompt", "HELLO", "--max-new-tokens", 4,
        "--experts", tmp_path / "e.colibri", "--verbose", "--metrics", tmp_path / "m.prom",
    )  # fmt: skip
    assert status == 0
    calls = {(row["layer"], row["expert"]): row["calls"] for row in document["experts"]}
    assert sum(row["tokens"] for row in document["experts"]) == (5 + 3) * 2 * 2
    pattern = r'colibri_expert_calls_total\{layer="(\d+)",expert="(\d+)"\} (\d+)'
    for layer, expert, count in re.findall(pattern, (tmp_path / "m.prom").read_text()):
        assert calls.get((int(layer), int(expert)), 0) == int(count)
    status, _, err = run(
        capsys, "infer", "--model", folder, "--prompt", "A", "--max-new-tokens", 1, "--verbose"
    )
    assert "compute_ms" in err
    assert "never called (layer/expert): " in err


def test_infer_reads_a_file_and_samples_with_a_seed(capsys, folder, tmp_path):
    file = tmp_path / "prompt.txt"
    file.write_text("HELLO")
    texts = [
        run_json(
            capsys, "infer", "--model", folder, "--prompt-file", file, "--temperature", 1.5,
            "--seed", seed, "--max-new-tokens", 12,
        )[1]["text"]
        for seed in (1, 1, 2)
    ]  # fmt: skip
    assert texts[0] == texts[1] != texts[2]


BAD_INFER = {
    "empty prompt": (["--prompt", ""], "prompt is empty"),
    "top_k": (["--prompt", "A", "--top-k", "5"], "top_k is out of range"),
    "top_k zero": (["--prompt", "A", "--top-k", "0"], "top_k is out of range"),
    "too long": (["--prompt", "A" * 65], "longer than the model's positions"),
    "capacity": (["--prompt", "A", "--capacity", "tight"], "capacity policy is not known"),
    "policy": (["--prompt", "A", "--cache-policy", "magic"], "cache policy is not known"),
    "slots": (["--prompt", "A", "--expert-cache-size", "0"], "expert_cache_size"),
    "tokens": (["--prompt", "A", "--max-new-tokens", "-1"], "max_new_tokens is negative"),
    "temperature": (["--prompt", "A", "--temperature", "-1"], "temperature"),
    "counters": (["--prompt", "A", "--backend", "numpy", "--verbose"], "keeps no counters"),
    "surrogates": (["--prompt", "A\udcff"], "not UTF-8"),
    "no file": (["--prompt-file", "/nowhere/prompt"], "No such file"),
    "seed": (["--prompt", "A", "--temperature", "1", "--seed", "-1"], "seed is negative"),
    "trace": (["--prompt", "A", "--trace", "/nowhere/t.parquet"], "folder is not there"),
    "no experts": (["--prompt", "A", "--experts", "/nowhere/e.cbi"], "cannot be opened"),
}


@pytest.mark.parametrize("name", BAD_INFER)
def test_bad_infer(capsys, folder, name):
    arguments, words = BAD_INFER[name]
    status, _, err = run(capsys, "infer", "--model", folder, *arguments)
    assert status == 2
    assert words in err
    assert "Traceback" not in err


def test_text_that_is_not_utf8(capsys, folder, tmp_path):
    file = tmp_path / "latin1.txt"
    file.write_bytes("caf\xe9".encode("latin1"))
    status, document = run_json(capsys, "infer", "--model", folder, "--prompt-file", file)
    assert status == 2
    assert document["error"]["path"] == str(file)
    assert document["error"]["offset"] == 3
    assert "0xe9" in document["error"]["found"]


def test_checkpoint_without_a_tokenizer(capsys, folder):
    (folder / "tokenizer.json").unlink()
    status, _, err = run(capsys, "infer", "--model", folder, "--prompt", "A")
    assert status == 2
    assert "no tokenizer" in err


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


def test_a_model_larger_than_memory_is_read_layer_by_layer(capsys, folder, monkeypatch):
    from colibri_lab.cli import infer

    arguments = ["infer", "--model", folder, "--prompt", "HELLO", "--max-new-tokens", 5]
    wanted = run(capsys, *arguments)[1]
    monkeypatch.setattr(infer, "_layers_fit", lambda _: False)
    status, out, err = run(capsys, *arguments)
    assert (status, out) == (0, wanted)
    assert "read when it is used" in err


def test_infer_records_a_trace(capsys, folder, tmp_path):
    from colibri_lab.traces import read_trace

    for backend in ("cpu", "numpy"):
        out = tmp_path / f"{backend}.parquet"
        run(capsys, "infer", "--model", folder, "--prompt", "HELLO", "--max-new-tokens", 3,
            "--backend", backend, "--trace", out)  # fmt: skip
    cpu, numpy = (read_trace(tmp_path / f"{name}.parquet") for name in ("cpu", "numpy"))
    assert np.array_equal(cpu.expert, numpy.expert)
    assert len(cpu) == (5 + 2) * 2 * 2


def test_trace_import_stats_and_replay(capsys, folder, tmp_path):
    recorded, out = tmp_path / "r.parquet", tmp_path / "t.parquet"
    run(capsys, "infer", "--model", folder, "--prompt", "HELLO", "--max-new-tokens", 9,
        "--trace", recorded)  # fmt: skip
    status, document = run_json(capsys, "trace", "import", recorded, "-o", out)
    assert (status, document["assignments"]) == (0, (5 + 8) * 2 * 2)
    status, facts = run_json(capsys, "trace", "stats", out)
    assert (facts["prefill_tokens"], facts["decode_tokens"]) == (5, 8)
    assert facts["cycle_bytes"] == 2 * 2 * 3 * 16 * 24 * 4
    status, document = run_json(
        capsys, "trace", "replay", out, "--policy", "lru,belady", "--slots", "4,8"
    )
    assert status == 0
    assert [(r["policy"], r["slots"]) for r in document["results"]] == [
        (policy, slots) for slots in (4, 8) for policy in ("lru", "belady")
    ]
    assert document["results"][2]["misses"] <= 8
    status, text, _ = run(capsys, "trace", "replay", out, "--slots", "4")
    assert "belady" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["replay"], "needs budgets"),
        (["replay", "--slots", "4", "--budget-mib", "1"], "needs budgets"),
        (["replay", "--slots", ","], "needs budgets"),
        (["replay", "--slots", "4", "--policy", ","], "needs policies"),
        (["replay", "--slots", "4", "--layer-ms", "nan"], "costs make no sense"),
        (["replay", "--slots", "4", "--read-gbps", "nan"], "makes no sense"),
        (["replay", "--slots", "0"], "must be positive"),
        (["replay", "--slots", "4", "--policy", "magic"], "not known"),
        (["import", "--format", "magic", "-o", "x.parquet"], "format is not known"),
    ],
)
def test_bad_trace_usage(capsys, folder, tmp_path, arguments, words):
    out = tmp_path / "r.parquet"
    run(capsys, "infer", "--model", folder, "--prompt", "A", "--trace", out)
    status, _, err = run(capsys, "trace", arguments[0], out, *arguments[1:])
    assert status == 2
    assert words in err


def test_what_is_no_trace(capsys, tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    status, _, err = run(capsys, "trace", "stats", tmp_path / "x.csv")
    assert status == 2
    assert "no known trace format" in err


def test_report_of_a_trace(capsys, folder, tmp_path):
    recorded, out = tmp_path / "r.parquet", tmp_path / "cache.html"
    run(capsys, "infer", "--model", folder, "--prompt", "HELLO", "--max-new-tokens", 20,
        "--trace", recorded)  # fmt: skip
    status, _, err = run(capsys, "report", recorded, "-p", "layer_ms=1.0", "-o", out)
    assert status == 0, err
    assert "provisional: the trace has 19 decode tokens, one request" in out.read_text()
    (tmp_path / "x.txt").write_text("0 0 0 3:0.75 7:0.25\n")
    status, _, err = run(capsys, "report", tmp_path / "x.txt")
    assert status == 2
    assert "how large experts are" in err
    (tmp_path / "x.txt").write_text("nothing of the kind")
    status, _, err = run(capsys, "report", tmp_path / "x.txt")
    assert status == 2
    assert "no known trace format" in err


def test_trace_record_and_make(capsys, folder, tmp_path):
    from colibri_lab.traces import read_trace

    texts = []
    for name in ("a", "b"):
        texts.append(tmp_path / f"{name}.txt")
        texts[-1].write_text("ABCDEFGHIJKLMNOPQRSTUVWXYZ" * 2)
    out = tmp_path / "read.parquet"
    status, document = run_json(
        capsys, "trace", "record", "--model", folder, "--num-tokens", 20, *texts, "-o", out
    )
    assert (status, document["assignments"]) == (0, 2 * 20 * 2 * 2)
    assert "teacher-forced" in read_trace(out).source
    status, _, err = run(
        capsys, "trace", "record", "--model", folder, "--prefill", 60, *texts, "-o", out
    )
    assert (status, "too short" in err) == (2, True)
    status, document = run_json(capsys, "trace", "make", "zipf", "--num-tokens", 9, "-o", out)
    assert (status, document["assignments"]) == (0, 9 * 8 * 4)
    assert "synthetic" in read_trace(out).source
    status, _, err = run(capsys, "trace", "make", "magic", "-o", out)
    assert (status, "not known" in err) == (2, True)


def test_a_text_to_measure_is_read_before_the_work(capsys, folder, tmp_path):
    out = tmp_path / "a.cbi"
    arguments = ["convert", folder, out, "--quantize", "int8", "--measure", "/nowhere/text"]
    status, document = run_json(capsys, *arguments)
    assert (status, document["error"]["path"]) == (2, "/nowhere/text")
    assert not out.exists()
