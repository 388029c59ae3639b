"""Train the byte-level BPE tokenizer on the training texts and encode all texts.

Writes ``<work>/tokenizer.json``, ``<work>/tokens/<domain>.train.npy`` and ``.held.npy`` (uint16).
Training documents end with ``<|endoftext|>`` (id 0); a held-out file is encoded as it stands.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

VOCABULARY = 2048
END_OF_TEXT = "<|endoftext|>"
BYTES_A_DOMAIN = 1_500_000  # of training text, for the merges


def read_documents(path: Path) -> list[str]:
    """Read the training documents of a domain."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def first_bytes(documents: list[str], limit: int) -> Iterator[str]:
    """Yield documents until ``limit`` bytes are passed."""
    size = 0
    for text in documents:
        if size > limit:
            return
        yield text
        size += len(text.encode())


def train_tokenizer(corpora: dict[str, list[str]]) -> Tokenizer:
    """Train a byte-level BPE with an equal share of every domain."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    texts = (text for corpus in corpora.values() for text in first_bytes(corpus, BYTES_A_DOMAIN))
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def encode_documents(tokenizer: Tokenizer, documents: list[str]) -> np.ndarray:
    """Encode documents one after the other, each followed by the end-of-text token."""
    encoded = tokenizer.encode_batch(documents)
    return np.concatenate([np.array([*item.ids, 0], dtype=np.uint16) for item in encoded])


def main() -> None:
    """Train the tokenizer and write all tokens."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=Path("build/sample-model"))
    parser.add_argument("--heldout", type=Path, default=Path("data/heldout"))
    options = parser.parse_args()
    paths = sorted((options.work / "text").glob("*.train.jsonl"))
    corpora = {path.name.split(".")[0]: read_documents(path) for path in paths}
    tokenizer = train_tokenizer(corpora)
    tokenizer.save(str(options.work / "tokenizer.json"))
    tokens = options.work / "tokens"
    tokens.mkdir(exist_ok=True)
    for domain, documents in corpora.items():
        train = encode_documents(tokenizer, documents)
        text = (options.heldout / f"{domain}.txt").read_text(encoding="utf-8")
        held = np.array(tokenizer.encode(text).ids, dtype=np.uint16)
        np.save(tokens / f"{domain}.train.npy", train)
        np.save(tokens / f"{domain}.held.npy", held)
        ratio = len(text.encode()) / len(held)
        print(
            f"{domain:8} {len(train)} training tokens, {len(held)} held, {ratio:.2f} bytes a token"
        )


if __name__ == "__main__":
    main()
