"""What tests of commands share: running one, and a tokenizer of single characters."""

import json

from colibri_lab.cli import main

TOKENIZER_VOCABULARY = 64


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
