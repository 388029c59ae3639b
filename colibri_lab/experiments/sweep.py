"""A sweep: the same layers under every combination of a grid."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..models import load_config, load_model
from ..reference import Decoder
from .cell import Settings
from .grid import AXES, Grid, make_grid
from .inputs import KINDS
from .plan import Plan, make_plan, weight_dtype
from .presets import preset
from .progress import Callback
from .run import Run
from .run_store import new_run_id
from .session import Request, execute
from .texts import Texts, default_texts

DEFAULT_SLOTS = 4
MOST_REPEATS = 10_000_000


class Sweep:
    """A grid over a model, checked when it is made; nothing runs before `run`.

    model : a checkpoint folder or a Decoder.
    batch_size ... seq_len : the axes, a value or several; see `grid.Cell`.
    base, crosses : a design other than the full cross; see `grid.Grid`.
    repeats, warmup : calls a cell, timed and before.   seed : order of cells, random inputs.
    inputs : ``text``, the hidden states of the model reading; or ``random``.
    texts : a folder of .txt files, paths, or name -> text; default: ``heldout`` beside the model.
    out : the run folder; default: a new one under ``out``.
    Raises InputError for whatever the model or the machine cannot do.
    """

    def __init__(
        self,
        model: str | Path | Decoder,
        *,
        batch_size: Any = 1,
        top_k: Any = None,
        stream_count: Any = 1,
        capacity: Any = "none",
        backend: Any = "cpu",
        expert_cache_slots: Any = None,
        cache_policy: Any = "lru",
        seq_len: Any = 1,
        base: Mapping[str, Any] | None = None,
        crosses: Sequence[Sequence[str]] | None = None,
        repeats: int = 100,
        warmup: int = 3,
        seed: int = 0,
        inputs: str = "text",
        texts: Texts | None = None,
        blas_threads: int = 1,
        tolerance: float = 1e-4,
        out: str | Path | None = None,
    ) -> None:
        self._model = model
        self.config = model.config if isinstance(model, Decoder) else load_config(model)
        moe = self.config.moe
        axes = {
            "backend": backend,
            "batch_size": batch_size,
            "seq_len": seq_len,
            "top_k": moe.top_k if top_k is None else top_k,
            "stream_count": stream_count,
            "capacity": capacity,
            "expert_cache_slots": min(DEFAULT_SLOTS, moe.num_experts)
            if expert_cache_slots is None
            else expert_cache_slots,
            "cache_policy": cache_policy,
        }
        self.grid: Grid = make_grid(axes, moe.num_experts, base, crosses)
        self.settings = Settings(
            repeats=_within(1, MOST_REPEATS, "repeats", repeats),
            warmup=_within(1, MOST_REPEATS, "warmup", warmup),
            # Threads beyond the cores wait for each other in turns: a sweep would seem to hang.
            blas_threads=_within(1, os.cpu_count() or 1, "blas_threads", blas_threads),
            tolerance=_tolerance(tolerance),
        )
        self.seed = _within(0, None, "seed", seed)
        self.inputs = inputs
        self.texts = texts if texts is not None else default_texts(self.model_path)
        self.out = _folder(out)
        self._check()

    @classmethod
    def preset(cls, name: str, model: str | Path | Decoder, **changes: Any) -> Sweep:
        """A sweep of a ready-made grid: ``quick`` or ``full``.   changes : other arguments."""
        config = model.config if isinstance(model, Decoder) else load_config(model)
        return cls(model, **{**preset(name, config.moe), **changes})

    @classmethod
    def of_run(cls, folder: str | Path, **changes: Any) -> Sweep:
        """The sweep that a run folder was made by, to resume it.   changes : other arguments."""
        manifest = Run.open(folder).manifest
        arguments = {
            "model": manifest["model"]["path"],
            **{axis: manifest["grid"]["axes"][axis] for axis in AXES},
            "base": manifest["grid"]["base"],
            "crosses": manifest["grid"]["crosses"],
            **{field.name: manifest["settings"][field.name] for field in fields(Settings)},
            "seed": manifest["seeds"]["order"],
            # Of a run that ended while it captured its inputs, nothing else says their kind.
            "inputs": manifest["inputs_key"].partition(":")[0],
            "texts": manifest.get("texts"),
            "out": folder,
        }
        return cls(**{**arguments, **changes})

    @property
    def model_path(self) -> str:
        """The checkpoint folder, or nothing for a Decoder that came from none."""
        return self._model.path if isinstance(self._model, Decoder) else str(self._model)

    def plan(self) -> Plan:
        """A dry run: how many cells, how long, how much memory."""
        return make_plan(self._request())

    def run(
        self,
        progress: Callback | None = None,
        cancel: threading.Event | None = None,
        *,
        resume: bool = True,
    ) -> Run:
        """Measure every cell that the run folder does not have yet.

        progress : is called with a `Progress` for every event, in this thread.
        cancel : set it from another thread to stop within half a second; what is finished stays,
            and the run is returned with the status ``cancelled``.
        resume : go on with a run that is in the folder; False refuses one.
        Raises RunError where the folder cannot be used, Interrupted after Ctrl-C.
        """
        return execute(self._request(), progress, cancel, resume)

    def _request(self) -> Request:
        return Request(
            load=self._decoder,
            config=self.config,
            grid=self.grid,
            settings=self.settings,
            seed=self.seed,
            inputs=self.inputs,
            texts=self.texts,
            folder=Path(self.out),
        )

    def _decoder(self) -> Decoder:
        if isinstance(self._model, Decoder):
            return self._model
        return load_model(self._model, weight_dtype(self.config))

    def _check(self) -> None:
        for top_k in self.grid.axes["top_k"]:
            replace(self.config.moe, top_k=top_k)  # InputError where the routing rule forbids it
        if self.inputs not in KINDS:
            raise InputError(
                "inputs is not known", expected=f"one of {', '.join(KINDS)}", found=self.inputs
            )
        if self.inputs == "text" and self.texts is None:
            raise InputError(
                "there are no texts to read",
                expected="a folder of .txt files named heldout beside the model",
                found=f"none beside {self.model_path or 'a model in memory'}",
                hint='pass texts, or inputs="random", which every record is marked with',
            )
        if "cpu" in self.grid.axes["backend"] and not self.model_path:
            raise InputError(
                "the cpu backend reads experts from a checkpoint",
                expected="a model with a path",
                found="a Decoder that came from none",
                hint='pass the checkpoint folder, or backend="numpy"',
            )


def _folder(out: str | Path | None) -> Path:
    if out is None:
        return Path("out") / f"run-{new_run_id()}"
    if not str(out):  # Path("") is the current folder
        raise InputError("out is empty", expected="a folder for the run, or None", found=repr(out))
    return Path(out)


def _within(lowest: int, highest: int | None, name: str, value: Any) -> int:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or value < lowest or (highest is not None and value > highest):
        expected = f"{lowest} or more" if highest is None else f"{lowest} to {highest:,}"
        raise InputError(f"{name} is out of range", expected=expected, found=repr(value))
    return int(value)


def _tolerance(value: float) -> float:
    if not 0 <= value < math.inf:  # not-a-number would let every output pass
        raise InputError("tolerance is out of range", expected="0 or more", found=repr(value))
    return value
