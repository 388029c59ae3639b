"""Generate text. The text goes to standard output as it comes, a summary to standard error.

--backend cpu takes experts through the expert cache; numpy is the reference; cuda runs the kernels,
without a GPU on an emulated device. A checkpoint larger than the free memory works on the cpu
backend: its layers are then read when they are used."""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from .output import note, print_json
from .progress import bar

if TYPE_CHECKING:
    from ..engine.calls import LayerCalls
    from ..reference import Decoder, Generation
    from ..reference.decoder import MoEFunction
    from ..reference.weights import Array

EXAMPLE = "Example: colibri-lab infer --model data/tiny-moe --prompt 'In the beginning' --verbose"
REPLACEMENT = "\ufffd"  # what an unfinished character decodes to


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", type=Path, required=True, metavar="PATH")
    prompt = parser.add_mutually_exclusive_group(required=True)
    prompt.add_argument("--prompt", metavar="TEXT")
    prompt.add_argument("--prompt-file", type=Path, metavar="FILE", help="- for standard input")
    parser.add_argument("--experts", type=Path, metavar="FILE", help=".colibri or .cbi")
    parser.add_argument("--max-new-tokens", type=int, default=64, metavar="N")
    parser.add_argument(
        "--top-k", type=int, metavar="K", help="experts a token; default: the model's"
    )
    parser.add_argument(
        "--capacity", default="none", metavar="POLICY", help="none, hard:1.0, soft:1.25"
    )
    parser.add_argument("--backend", choices=("cpu", "numpy", "cuda"), default="cpu")
    parser.add_argument(
        "--expert-cache-size", type=int, default=4, metavar="N", help="experts a layer"
    )
    parser.add_argument("--cache-policy", default="lru", metavar="P")
    parser.add_argument("--streams", type=int, default=1, metavar="N")
    parser.add_argument("--temperature", type=float, default=0.0, help="0: greedy")
    parser.add_argument("--top-p", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--trace", type=Path, metavar="OUT.parquet", help="record the routing")
    parser.add_argument("--metrics", type=Path, metavar="OUT.prom", help="counters for Prometheus")
    parser.add_argument("--verbose", action="store_true", help="calls and times, an expert")
    parser.add_argument("--json", action="store_true", help="one JSON document")


def run(options: argparse.Namespace) -> None:
    _check(options)
    prompt = _prompt(options)
    model = _load(options)
    if model.tokenizer is None:
        raise InputError(
            "the checkpoint has no tokenizer", path=options.model, expected="tokenizer.json"
        )
    ids = model.tokenizer.encode(prompt)
    printer = None if options.json else _Printer(model, ids, prompt)
    start = time.perf_counter()
    if options.backend == "numpy":
        generation, engine = _generate(options, model, ids, printer, None), None
        elapsed = time.perf_counter() - start
    else:
        with _open_engine(options, len(ids)) as engine:
            start = time.perf_counter()
            generation = _generate(options, model, ids, printer, engine)
            elapsed = time.perf_counter() - start
    _tell(options, model, prompt, ids, generation, elapsed, engine)


def _check(options: argparse.Namespace) -> None:
    if options.backend == "numpy" and (options.metrics or options.verbose):
        raise InputError(
            "the numpy backend keeps no counters", expected="--backend cpu", found="numpy",
            hint="leave out --verbose and --metrics, or take --backend cpu",
        )  # fmt: skip
    for out in (options.trace, options.metrics):
        if out is not None and not out.parent.is_dir():  # said before the work, not after it
            raise InputError(
                "the output's folder is not there", path=out, expected="an existing folder"
            )


def _prompt(options: argparse.Namespace) -> str:
    from .text import read_text

    text = options.prompt if options.prompt is not None else read_text(options.prompt_file)
    if any("\udc80" <= character <= "\udcff" for character in text):
        raise InputError("the prompt is not UTF-8", expected="UTF-8", found=ascii(text[:40]))
    return str(text)


def _load(options: argparse.Namespace) -> Decoder:
    import numpy as np

    from ..models import load_model

    options.show_layers = False
    if options.backend == "numpy":
        return load_model(options.model, experts=options.experts)
    resident = _layers_fit(options.model)
    options.show_layers = not resident  # each then takes a while
    if not resident:
        note("the layers do not fit the free memory: each is read when it is used")
    return load_model(options.model, np.float32, resident=resident, resident_experts=False)


def _layers_fit(path: Path) -> bool:
    """Whether everything but the experts fits half of the free memory, as float32."""
    from ..engine.buffers import available_bytes
    from ..models import open_checkpoint

    with open_checkpoint(path) as checkpoint:
        needed = 2 * checkpoint.other_bytes()  # from 16 bits a value to 32
    available = available_bytes()
    return available is None or needed < available / 2


def _open_engine(options: argparse.Namespace, prompt_tokens: int) -> LayerCalls:
    from ..capacity import Capacity
    from ..engine import Engine

    opener: Callable[..., LayerCalls] = Engine.open
    if options.backend == "cuda":
        from ..engine.cuda import CudaEngine

        opener = CudaEngine.open
    return opener(
        options.model,
        experts=options.experts,
        max_batch_size=1,
        max_seq_len=max(prompt_tokens, 1),
        expert_cache_size=options.expert_cache_size,
        cache_policy=options.cache_policy,
        stream_count=options.streams,
        top_k=options.top_k,
        capacity=Capacity.parse(options.capacity),
    )


def _generate(
    options: argparse.Namespace,
    model: Decoder,
    ids: list[int],
    printer: _Printer | None,
    engine: LayerCalls | None,
) -> Generation:
    from ..capacity import Capacity

    layers = options.max_new_tokens * model.config.num_moe_layers
    with bar("layers") if options.show_layers else nullcontext() as progress:
        return model.generate(
            ids,
            options.max_new_tokens,
            temperature=options.temperature,
            top_p=options.top_p,
            seed=options.seed,
            top_k=options.top_k,
            capacity=Capacity.parse(options.capacity),
            moe=None if engine is None else _watched(engine, layers, progress),
            routed=None if engine is None else engine.assigned,
            trace=options.trace is not None,
            on_token=None if printer is None else printer.add,
        )


def _watched(
    engine: LayerCalls, total: int, progress: Callable[[int, int], None] | None
) -> MoEFunction:
    """The engine's layers, each of which moves the bar on."""
    if progress is None:
        return engine.run_layer
    done = itertools.count(1)

    def moe(layer: int, hidden_states: Array) -> Array:
        output = engine.run_layer(layer, hidden_states)
        progress(next(done), total)
        return output

    return moe


@dataclass
class _Printer:
    """Prints text as tokens come; a character that is cut in two waits for its other half."""

    model: Decoder
    ids: list[int]
    text: str

    def __post_init__(self) -> None:
        self.ids = list(self.ids)
        print(self.text, end="", flush=True)
        self.text = self.model.tokenizer.decode(self.ids)

    def add(self, token: int) -> None:
        self.ids.append(token)
        text = self.model.tokenizer.decode(self.ids)
        if not text.endswith(REPLACEMENT):
            print(text[len(self.text) :], end="", flush=True)
            self.text = text


def _tell(
    options: argparse.Namespace,
    model: Decoder,
    prompt: str,
    ids: list[int],
    generation: Generation,
    elapsed: float,
    engine: LayerCalls | None,
) -> None:
    new = generation.token_ids
    emulated = engine is not None and engine.emulated
    summary: dict[str, Any] = {
        "prompt_tokens": len(ids),
        "new_tokens": len(new),
        "seconds": None if emulated else elapsed,
        "tokens_per_s": None if emulated else len(new) / elapsed if new else 0.0,
    }
    if engine is not None:
        summary |= _counts(engine)
    if not options.json:
        print()
    _write_files(options, generation, engine)
    if options.json:
        text = model.tokenizer.decode(new)
        found = {"prompt": prompt, "text": text, "token_ids": new, **summary}
        print_json({**found, "experts": _experts(engine)} if options.verbose else found)
        return
    done = f"{len(ids)} prompt and {len(new)} new tokens"
    if emulated:
        note(f"{done}; no GPU computed, so there are no times")
    else:
        note(f"{done} in {elapsed:.2f} s, {summary['tokens_per_s']:.1f} new tokens/s")
    if engine is not None:
        note(f"expert cache: {summary['hits']:,} hits, {summary['misses']:,} misses, "
             f"{summary['bytes_read'] / 2**20:.1f} MiB read")  # fmt: skip
    if options.verbose and engine is not None:
        _print_experts(engine)


def _write_files(
    options: argparse.Namespace, generation: Generation, engine: LayerCalls | None
) -> None:
    if options.trace and generation.trace is not None:
        from ..traces import write_trace

        write_trace(generation.trace, options.trace)
    if options.metrics and engine is not None:
        _write_metrics(options.metrics, engine)


def _counts(engine: LayerCalls) -> dict[str, Any]:
    stats = engine.stats
    return {name: int(getattr(stats, name).sum()) for name in ("hits", "misses", "bytes_read")}


COLUMNS = ("layer", "expert", "calls", "tokens", "loads", "load_ms", "compute_ms", "combine_ms")


def _experts(engine: LayerCalls | None) -> list[dict[str, Any]]:
    from ..engine.health import expert_rows

    rows = [] if engine is None else expert_rows(engine.stats)
    return [dict(zip(COLUMNS, row, strict=True)) for row in rows]


def _print_experts(engine: LayerCalls) -> None:
    from ..engine.health import expert_rows, health
    from .output import print_table

    print_table(COLUMNS, expert_rows(engine.stats), file=sys.stderr)
    found = health(engine.stats)
    if found.never_called:
        listed = ", ".join(f"{layer}/{expert}" for layer, expert in found.never_called)
        note(f"never called (layer/expert): {listed}")
    for layer, expert, factor in found.slow:
        note(f"slow: layer {layer}, expert {expert}: {factor:.1f} times its layer's median")


def _write_metrics(path: Path, engine: LayerCalls) -> None:
    from ..atomic import atomic_writer
    from ..engine.health import prometheus_text

    with atomic_writer(path) as file:
        file.write(prometheus_text(engine.stats).encode())
