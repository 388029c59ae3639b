"""A checkpoint folder: config.json, safetensors weights, tokenizer.json."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ..config import ModelConfig
from ..errors import ColibriError, ModelError
from ..formats.safetensors_io import CheckpointFiles
from ..reference.weights import DecoderWeights, ExpertWeights, LayerWeights, MoELayerWeights
from .config_file import ConfigFile, located
from .deepseek import DEEPSEEK_V1, DEEPSEEK_V2, DEEPSEEK_V3
from .family import Family, RouterWeights, mlp
from .gpt_oss import GPT_OSS
from .lazy import LazySequence
from .mixtral import MIXTRAL
from .olmoe import OLMOE
from .qwen import QWEN2_MOE, QWEN3_MOE
from .reader import CheckingReader, TensorReader, ValueReader
from .tokenizer import load_tokenizer

FAMILIES = {
    family.architecture: family
    for family in (
        MIXTRAL, QWEN2_MOE, QWEN3_MOE, DEEPSEEK_V1, DEEPSEEK_V2, DEEPSEEK_V3, OLMOE, GPT_OSS,
    )
}  # fmt: skip


@dataclass(frozen=True)
class Checkpoint:
    """An open checkpoint; weights are read when they are asked for.

    Layers are counted among the MoE layers. Raises FormatError or ModelError, naming the tensor,
    for whatever does not fit config.json.
    """

    path: Path
    config: ModelConfig
    file: ConfigFile
    family: Family
    files: CheckpointFiles

    @cached_property
    def fingerprint(self) -> str:
        """Identifies the weights."""
        return self.files.fingerprint()

    @cached_property
    def tokenizer(self) -> Any:
        """The checkpoint's tokenizer, or None where it has none."""
        return load_tokenizer(self.path)

    def router(self, layer: int, dtype: DTypeLike = np.float32) -> RouterWeights:
        """weight [E, H], bias and correction [E] or None."""
        decoder_layer = self.config.moe_layers[layer]
        return self.family.router(self._values(dtype), self.file, self.config, decoder_layer)

    def read_expert(self, layer: int, expert: int, dtype: DTypeLike = np.float32) -> ExpertWeights:
        """One expert's weights, copied from the mapped file."""
        decoder_layer = self.config.moe_layers[layer]
        reader = self._values(dtype)
        return self.family.expert(reader, self.file, self.config, decoder_layer, expert)

    def expert_shape(self, layer: int, expert: int) -> ExpertWeights:
        """An expert with the right shapes and no values: what config.json says of it."""
        return self._check_expert(layer, expert)[0]

    def expert_bytes(self, layer: int) -> int:
        """Bytes that an expert of this layer takes in the files."""
        return sum(self._check_expert(layer, 0)[1].num_bytes.values())

    def expert_bias_names(self) -> list[str]:
        """The tensors that hold the first expert's biases; none in most families."""
        expert, reader = self._check_expert(0, 0)
        return [name for name in reader.num_bytes if "bias" in name] if expert.bias else []

    def _check_expert(self, layer: int, expert: int) -> tuple[ExpertWeights, CheckingReader]:
        reader, decoder_layer = CheckingReader(self.files), self.config.moe_layers[layer]
        shape = self.family.expert(reader, self.file, self.config, decoder_layer, expert)
        return shape, reader

    def other_bytes(self) -> int:
        """Stored bytes outside the experts: embeddings, attention, norms, routers, shared ones."""
        layers = range(self.config.num_moe_layers)
        experts = self.config.moe.num_experts * sum(map(self.expert_bytes, layers))
        return sum(map(self.files.num_bytes, self.files.names)) - experts

    def weights(
        self, dtype: DTypeLike = np.float64, resident: bool = True, resident_experts: bool = True
    ) -> DecoderWeights:
        """The weights; what is not to be resident is read at each use."""
        return self._weights(self._values(dtype), resident, resident_experts)

    def moe_layer(self, layer: int, dtype: DTypeLike = np.float32) -> MoELayerWeights:
        """The weights of an MoE layer, its experts read at each use."""
        return self._moe(self._values(dtype), self.config.moe_layers[layer], resident_experts=False)

    def check(self) -> None:
        """FormatError where a tensor is missing or of a wrong shape or dtype; reads no values."""
        self._weights(CheckingReader(self.files), resident=True, resident_experts=True)

    def _values(self, dtype: DTypeLike) -> ValueReader:
        return ValueReader(self.files, dtype)

    def _weights(
        self, reader: TensorReader, resident: bool, resident_experts: bool
    ) -> DecoderWeights:
        config = self.config
        table = (config.vocab_size, config.hidden_size)
        embedding = reader.read("model.embed_tokens.weight", table)
        layers: Sequence[LayerWeights] = LazySequence(
            config.num_layers,
            lambda index: self._layer(reader, index, resident and resident_experts),
        )
        return DecoderWeights(
            embedding=embedding,
            layers=list(layers) if resident else layers,
            final_norm=reader.read("model.norm.weight", (config.hidden_size,)),
            lm_head=embedding if config.tie_embeddings else reader.read("lm_head.weight", table),
        )

    def _layer(self, reader: TensorReader, index: int, resident_experts: bool) -> LayerWeights:
        config, prefix = self.config, f"model.layers.{index}"
        norm = (config.hidden_size,)
        has_experts = index in config.moe_layers
        return LayerWeights(
            input_norm=reader.read(f"{prefix}.input_layernorm.weight", norm),
            attention=self.family.attention(reader, self.file, config, index),
            post_attention_norm=reader.read(f"{prefix}.post_attention_layernorm.weight", norm),
            moe=self._moe(reader, index, resident_experts) if has_experts else None,
            dense=None if has_experts else self._dense(reader, index),
        )

    def _moe(self, reader: TensorReader, index: int, resident_experts: bool) -> MoELayerWeights:
        config, family = self.config, self.family
        weight, bias, correction = family.router(reader, self.file, config, index)
        experts: Sequence[ExpertWeights] = LazySequence(
            config.moe.num_experts,
            lambda expert: family.expert(reader, self.file, config, index, expert),
        )
        return MoELayerWeights(
            router=np.ascontiguousarray(weight.T),
            experts=list(experts) if resident_experts else experts,
            router_bias=bias,
            correction=correction,
            shared=family.shared(reader, self.file, config, index),
        )

    def _dense(self, reader: TensorReader, index: int) -> ExpertWeights:
        config = self.config
        if config.dense_intermediate_size is None:
            raise ModelError(
                'config.json: "intermediate_size" is missing, and a layer is dense', found=index
            )
        prefix = f"model.layers.{index}.mlp"
        return mlp(reader, prefix, config.hidden_size, config.dense_intermediate_size)

    def close(self) -> None:
        """Unmap the weights."""
        self.files.close()

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_checkpoint(path: str | Path) -> Checkpoint:
    """Open a checkpoint folder and hold its files against its config.json.

    Raises ModelError where the architecture is not known, FormatError where a tensor is missing or
    has a wrong shape.
    """
    path = Path(path)
    family, config, file = _read_config(path)
    checkpoint = Checkpoint(path, config, file, family, CheckpointFiles(path))
    try:
        checkpoint.check()
    except ModelError as error:
        checkpoint.close()
        raise located(error.path or path / "config.json", error) from error
    except BaseException:
        checkpoint.close()
        raise
    return checkpoint


def load_config(path: str | Path) -> ModelConfig:
    """The configuration of a checkpoint folder, without opening its weights."""
    return _read_config(Path(path))[1]


def _read_config(path: Path) -> tuple[Family, ModelConfig, ConfigFile]:
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
        return family, family.read_config(contents), contents
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
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
