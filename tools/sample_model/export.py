"""Write a checkpoint in the Hugging Face layout of Mixtral, weights in bfloat16.

The folder gets ``config.json``, ``model.safetensors``, ``tokenizer.json`` and
``tokenizer_config.json``; all are readable by everyone.
"""

import argparse
import json
import shutil
from pathlib import Path

import torch
from model import Config, LanguageModel, published_state
from safetensors.torch import save_file
from tokenizer import END_OF_TEXT

TOKENIZER_CONFIG = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "bos_token": END_OF_TEXT,
    "eos_token": END_OF_TEXT,
    "clean_up_tokenization_spaces": False,
    "model_max_length": 2048,
}


def load_model(checkpoint: Path) -> LanguageModel:
    """Return the model of a training checkpoint, ready to be measured."""
    model = LanguageModel(Config())
    model.load_state_dict(torch.load(checkpoint)["model"])
    return model.eval()


def export(model: LanguageModel, tokenizer: Path, out: Path) -> None:
    """Write the four files of the published layout."""
    out.mkdir(parents=True, exist_ok=True)
    state = {name: w.to(torch.bfloat16) for name, w in published_state(model).items()}
    save_file(state, out / "model.safetensors", metadata={"format": "pt"})
    for name, content in {
        "config.json": model.config.published(),
        "tokenizer_config.json": TOKENIZER_CONFIG,
    }.items():
        (out / name).write_text(json.dumps(content, indent=2) + "\n")
    shutil.copyfile(tokenizer, out / "tokenizer.json")
    for path in out.iterdir():
        path.chmod(0o644)  # safetensors writes with mode 0600


def main() -> None:
    """Parse the arguments and export."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=Path("build/sample-model"))
    parser.add_argument("--checkpoint", default="final.pt", help="a name in <work>/checkpoints")
    parser.add_argument("--out", type=Path, default=Path("data/tiny-moe"))
    options = parser.parse_args()
    checkpoint = options.work / "checkpoints" / options.checkpoint
    export(load_model(checkpoint), options.work / "tokenizer.json", options.out)
    print(f"{checkpoint} -> {options.out}")


if __name__ == "__main__":
    main()
