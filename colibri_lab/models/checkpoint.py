"""A checkpoint folder: config.json, safetensors weights, tokenizer.json."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ..config import ModelConfig
from ..errors import ColibriError, FormatError, ModelError
from ..formats.safetensors_io import Array, CheckpointFiles
from ..reference.decoder import Decoder
from ..reference.weights import (
    AttentionWeights,
    DecoderWeights,
    ExpertWeights,
    LayerWeights,
    MoELayerWeights,
)
from .family import Family, located
from .mixtral import MIXTRAL
from .tokenizer import load_tokenizer

FAMILIES = {family.architecture: family for family in (MIXTRAL,)}


@dataclass(frozen=True)
class Checkpoint:
    """An open checkpoint; weights are read when they are asked for.

    Raises FormatError or ModelError, naming the tensor, for whatever does not fit config.json.
    """

    path: Path
    config: ModelConfig
    family: Family
    files: CheckpointFiles

    @cached_property
    def fingerprint(self) -> str:
        """Identifies configuration and weights together."""
        return self.files.fingerprint()

    @cached_property
    def tokenizer(self) -> Any:
        """The checkpoint's tokenizer, or None where it has none."""
        return load_tokenizer(self.path)

    def router(self, layer: int, dtype: DTypeLike = np.float32) -> Array:
        """[H, E], contiguous."""
        moe = self.config.moe
        stored = self._read(self.family.router(layer), (moe.num_experts, moe.hidden_size), dtype)
        return np.ascontiguousarray(stored.T)

    def read_expert(self, layer: int, expert: int, dtype: DTypeLike = np.float32) -> ExpertWeights:
        """One expert's weights, copied from the mapped file."""
        moe = self.config.moe
        wide = (moe.intermediate_size, moe.hidden_size)
        gate, up, down = self.family.expert(layer, expert)
        return ExpertWeights(
            gate=self._read(gate, wide, dtype),
            up=self._read(up, wide, dtype),
            down=self._read(down, wide[::-1], dtype),
        )

    def expert_bytes(self, layer: int) -> int:
        """Bytes that an expert of this layer takes in the files."""
        return sum(self.files.num_bytes(name) for name in self.family.expert(layer, 0))

    def weights(self, dtype: DTypeLike = np.float64) -> DecoderWeights:
        """All weights in memory."""
        config, names = self.config, self.family.model
        table = (config.vocab_size, config.hidden_size)
        embedding = self._read(names["embedding"], table, dtype)
        tied = config.tie_embeddings
        return DecoderWeights(
            embedding=embedding,
            layers=[self._layer(index, dtype) for index in range(config.num_layers)],
            final_norm=self._read(names["final_norm"], (config.hidden_size,), dtype),
            lm_head=embedding if tied else self._read(names["lm_head"], table, dtype),
        )

    def _layer(self, index: int, dtype: DTypeLike) -> LayerWeights:
        config, names = self.config, self.family.layer(index)
        hidden = config.hidden_size
        inner = config.num_heads * config.head_dim
        key_value = config.num_kv_heads * config.head_dim
        experts = [
            self.read_expert(index, expert, dtype) for expert in range(config.moe.num_experts)
        ]
        return LayerWeights(
            input_norm=self._read(names["input_norm"], (hidden,), dtype),
            attention=AttentionWeights(
                q=self._read(names["q"], (inner, hidden), dtype),
                k=self._read(names["k"], (key_value, hidden), dtype),
                v=self._read(names["v"], (key_value, hidden), dtype),
                o=self._read(names["o"], (hidden, inner), dtype),
            ),
            post_attention_norm=self._read(names["post_attention_norm"], (hidden,), dtype),
            moe=MoELayerWeights(router=self.router(index, dtype), experts=experts),
        )

    def _read(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        tensor = self.files.read(name, shape)
        # isfinite does not know bfloat16; widening to float32 is exact.
        wide = tensor.astype(np.float32) if tensor.dtype.itemsize < 4 else tensor
        if not np.isfinite(wide).all():
            bad = int(np.count_nonzero(~np.isfinite(wide)))
            raise FormatError(
                f"tensor {name} has values that are not finite",
                path=self.path,
                expected="finite weights",
                found=f"{bad} NaN or infinity of {wide.size}",
                hint="colibri-lab inspect --verify lists every such tensor",
            )
        return wide.astype(dtype, copy=False)

    def expected_tensors(self) -> Iterator[str]:
        """The names of every tensor that the configuration asks for."""
        for part, name in self.family.model.items():
            if part != "lm_head" or not self.config.tie_embeddings:
                yield name
        for layer in range(self.config.num_layers):
            yield from self.family.layer(layer).values()
            yield self.family.router(layer)
            for expert in range(self.config.moe.num_experts):
                yield from self.family.expert(layer, expert)

    def close(self) -> None:
        """Unmap the weights."""
        self.files.close()

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def open_checkpoint(path: str | Path) -> Checkpoint:
    """Open a checkpoint folder and hold its files against its config.json.

    Raises ModelError where the architecture is not known, or a tensor is missing.
    """
    path = Path(path)
    family, config = _read_config(path)
    checkpoint = Checkpoint(path, config, family, CheckpointFiles(path))
    try:
        for name in checkpoint.expected_tensors():
            checkpoint.files.dtype(name)
    except BaseException:
        checkpoint.close()
        raise
    return checkpoint


def load_model(path: str | Path, dtype: DTypeLike = np.float64) -> Decoder:
    """Read a checkpoint folder into memory, ready to run.

    dtype : how weights are held; sums are in float64 whatever it is.
    Raises ModelError or FormatError, naming file and tensor.
    """
    with open_checkpoint(path) as checkpoint:
        layers = range(checkpoint.config.num_layers)
        return Decoder(
            config=checkpoint.config,
            weights=checkpoint.weights(dtype),
            tokenizer=checkpoint.tokenizer,
            expert_bytes=tuple(checkpoint.expert_bytes(layer) for layer in layers),
            fingerprint=checkpoint.fingerprint,
            path=str(path),
        )


def load_config(path: str | Path) -> ModelConfig:
    """The configuration of a checkpoint folder, without opening its weights."""
    return _read_config(Path(path))[1]


def _read_config(path: Path) -> tuple[Family, ModelConfig]:
    file = path / "config.json"
    if not file.is_file():
        raise ModelError(
            "there is no checkpoint here",
            path=path,
            expected="a folder with config.json",
            found="a folder without it" if path.is_dir() else _what(path),
        )
    try:
        contents = json.loads(file.read_text(encoding="utf-8"))
        family = _family(contents.get("architectures"), file)
        return family, family.read_config(contents)
    except (ValueError, AttributeError, TypeError) as error:
        if isinstance(error, ColibriError):
            raise located(file, error) from error
        raise ModelError(
            "config.json cannot be read", path=file, expected="a JSON object", found=str(error)
        ) from error
    except ModelError as error:
        raise located(file, error) from error


def _what(path: Path) -> str:
    return "a file" if path.exists() else "nothing"


def _family(architectures: Sequence[str] | None, file: Path) -> Family:
    for name in architectures or ():
        if name in FAMILIES:
            return FAMILIES[name]
    raise ModelError(
        "the architecture is not known",
        path=file,
        expected=f"one of {', '.join(FAMILIES)}",
        found=architectures,
    )
