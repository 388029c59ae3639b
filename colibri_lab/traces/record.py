"""Recording traces from a model of our own while it reads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..errors import InputError
from ..reference import Decoder, RoutingTrace
from .synthetic import interleave


def record_reading(
    model: Decoder, requests: Sequence[Sequence[int]], num_prefill: int = 16
) -> RoutingTrace:
    """The routing while the model reads texts token by token, requests taking turns.

    requests : token ids of each text.   num_prefill : tokens read at once before the decode steps.
    The next token is always the text's own, whatever the model would have chosen (teacher forcing):
    the routing is that of reading, and the source says so. Each layer's router is asked one layer
    early, too: the trace has a look-ahead.
    """
    if not requests or min(map(len, requests)) <= num_prefill or num_prefill < 1:
        raise InputError(
            "a text is too short to record",
            expected=f"texts of over {max(num_prefill, 1)} tokens",
            found=[len(ids) for ids in requests],
        )
    most = model.config.max_seq_len
    if max(map(len, requests)) > most:
        raise InputError(
            "a text is too long to record",
            expected=f"at most {most} tokens, the model's positions",
            found=[len(ids) for ids in requests],
            hint="--num-tokens reads less of each",
        )
    traces = [_read(model, ids, num_prefill) for ids in requests]
    return interleave(traces)


def _read(model: Decoder, ids: Sequence[int], num_prefill: int) -> RoutingTrace:
    recorder = model.recorder()
    recorder.source, recorder.asks_ahead = "read by the reference, teacher-forced", True
    cache = model.forward(ids[:num_prefill], recorder=recorder).cache
    for token in ids[num_prefill:]:
        model.forward(np.array([token]), cache=cache, recorder=recorder)
    return recorder.trace()
