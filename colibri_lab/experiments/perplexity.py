"""What top_k and a capacity policy do to the model itself: perplexity on held-out text."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..capacity import Capacity
from ..reference import Decoder
from ..reference.metrics import next_token_losses, perplexity
from .progress import check
from .reference_runs import watched_moe
from .texts import Corpus

TOKENS = 128
CALLS = 4


@dataclass(frozen=True)
class CallSize:
    """The layer call that perplexity is taken with; a capacity policy depends on it.

    sequences : one of each domain.   tokens : of each sequence.   calls : that are averaged over.
    """

    sequences: int
    tokens: int
    calls: int

    def describe(self) -> dict[str, Any]:
        """What the manifest says about it."""
        return {
            "sequences_per_call": self.sequences,
            "tokens_per_sequence": self.tokens,
            "tokens_per_layer_call": self.sequences * self.tokens,
            "calls": self.calls,
            "predicted_tokens": self.sequences * (self.tokens - 1) * self.calls,
        }


def call_size(decoder: Decoder, corpus: Corpus) -> CallSize | None:
    """The size that model and texts allow; None where nothing can be predicted."""
    sequences = len(corpus.domains)
    tokens = min(TOKENS, decoder.config.max_seq_len, corpus.longest_window(sequences))
    if tokens < 2:
        return None
    return CallSize(sequences, tokens, min(CALLS, corpus.longest_window(sequences) // tokens))


def measure_perplexity(
    decoder: Decoder,
    corpus: Corpus,
    size: CallSize,
    top_k: int,
    capacity: Capacity,
    cancel: threading.Event | None = None,
) -> float:
    """Perplexity of the reference decoder where every MoE layer obeys top_k and capacity."""
    moe = watched_moe(decoder, top_k, capacity, cancel)
    losses = []
    for index in range(size.calls):
        check(cancel)
        _, token_ids = corpus.windows(size.sequences, size.tokens, first=index)
        losses.append(next_token_losses(decoder.forward(token_ids, moe=moe).logits, token_ids))
    return perplexity(np.concatenate(losses))


@dataclass
class PerplexityTable:
    """Perplexities that were asked for so far, each worked out once.

    values : ``top_k=K capacity=C`` -> perplexity; what the run folder keeps.
    corpus : None where there is no text to read.
    """

    decoder: Decoder
    corpus: Corpus | None
    values: dict[str, float] = field(default_factory=dict)

    def of(
        self, top_k: int, capacity: Capacity, cancel: threading.Event | None = None
    ) -> float | None:
        """The perplexity, None where it cannot be measured."""
        size = self.size
        if self.corpus is None or size is None:
            return None
        key = f"top_k={top_k} capacity={capacity}"
        if key not in self.values:
            self.values[key] = measure_perplexity(
                self.decoder, self.corpus, size, top_k, capacity, cancel
            )
        return self.values[key]

    def describe(self) -> dict[str, Any] | None:
        """What the manifest says: the layer call's size, and how."""
        if self.size is None:
            return None
        how = "the reference decoder, each layer call over one sequence of every domain"
        return {**self.size.describe(), "how": how}

    @property
    def size(self) -> CallSize | None:
        return None if self.corpus is None else call_size(self.decoder, self.corpus)
