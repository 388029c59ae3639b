"""``colibri-lab infer``: text, counters, files, and what it refuses."""

import re

import pytest

from colibri_lab.models import load_model
from tests.cli.support import run, run_json


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


def test_a_model_larger_than_memory_is_read_layer_by_layer(capsys, folder, monkeypatch):
    from colibri_lab.cli import infer

    arguments = ["infer", "--model", folder, "--prompt", "HELLO", "--max-new-tokens", 5]
    wanted = run(capsys, *arguments)[1]
    monkeypatch.setattr(infer, "_layers_fit", lambda _: False)
    status, out, err = run(capsys, *arguments)
    assert (status, out) == (0, wanted)
    assert "read when it is used" in err
