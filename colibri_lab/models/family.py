"""What a model family must tell, and the pieces that families are put together from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from ..config import ModelConfig
from ..reference.attention import GroupedQueryAttention, Linear
from ..reference.rope import Rope
from ..reference.weights import Array, Attention, ExpertWeights, SharedExpert
from .config_file import ConfigFile
from .reader import TensorReader


class RouterWeights(NamedTuple):
    """weight : [E, H], as checkpoints store it.   bias, correction : [E] or None."""

    weight: Array
    bias: Array | None = None
    correction: Array | None = None


def no_shared(
    reader: TensorReader, file: ConfigFile, config: ModelConfig, layer: int
) -> SharedExpert | None:
    """For families in which every expert is routed."""
    return None


@dataclass(frozen=True)
class Family:
    """One model family: how its config.json and its tensors' names are read.

    architecture : the name that config.json gives under "architectures".
    The functions take a reader, config.json, the ModelConfig and the decoder layer's index;
    `expert` takes the expert's too. Embeddings, norms and dense layers have the same names in all.
    """

    architecture: str
    read_config: Callable[[ConfigFile], ModelConfig]
    attention: Callable[[TensorReader, ConfigFile, ModelConfig, int], Attention]
    router: Callable[[TensorReader, ConfigFile, ModelConfig, int], RouterWeights]
    expert: Callable[[TensorReader, ConfigFile, ModelConfig, int, int], ExpertWeights]
    shared: Callable[[TensorReader, ConfigFile, ModelConfig, int], SharedExpert | None] = no_shared


def linear(reader: TensorReader, prefix: str, rows: int, columns: int, bias: bool) -> Linear:
    """`prefix`.weight [rows, columns], and `prefix`.bias [rows] where there is one."""
    weight = reader.read(f"{prefix}.weight", (rows, columns))
    return Linear(weight, reader.read(f"{prefix}.bias", (rows,)) if bias else None)


def grouped_query(
    reader: TensorReader,
    config: ModelConfig,
    layer: int,
    rope: Rope,
    *,
    bias: bool = False,
    output_bias: bool = False,
    norms: tuple[int, int] | None = None,
    sinks: bool = False,
    clip: float | None = None,
) -> GroupedQueryAttention:
    """The attention that Llama's descendants share.

    norms : sizes of q_norm and k_norm, where the family has them.
    """
    prefix = f"model.layers.{layer}.self_attn"
    inner = config.num_heads * config.head_dim
    key_value = config.num_kv_heads * config.head_dim
    hidden = config.hidden_size
    return GroupedQueryAttention(
        q=linear(reader, f"{prefix}.q_proj", inner, hidden, bias),
        k=linear(reader, f"{prefix}.k_proj", key_value, hidden, bias),
        v=linear(reader, f"{prefix}.v_proj", key_value, hidden, bias),
        o=linear(reader, f"{prefix}.o_proj", hidden, inner, output_bias),
        num_heads=config.num_heads,
        num_kv_heads=config.num_kv_heads,
        rope=rope,
        norm_eps=config.rms_norm_eps,
        q_norm=reader.read(f"{prefix}.q_norm.weight", (norms[0],)) if norms else None,
        k_norm=reader.read(f"{prefix}.k_norm.weight", (norms[1],)) if norms else None,
        sinks=reader.read(f"{prefix}.sinks", (config.num_heads,)) if sinks else None,
        clip=clip,
        sliding_window=config.sliding_windows[layer],
    )


def mlp(
    reader: TensorReader, prefix: str, hidden_size: int, intermediate_size: int
) -> ExpertWeights:
    """A dense SwiGLU under gate_proj, up_proj and down_proj."""
    wide = (intermediate_size, hidden_size)
    return ExpertWeights(
        gate=reader.read(f"{prefix}.gate_proj.weight", wide),
        up=reader.read(f"{prefix}.up_proj.weight", wide),
        down=reader.read(f"{prefix}.down_proj.weight", wide[::-1]),
    )


def routed_expert(
    reader: TensorReader, file: ConfigFile, config: ModelConfig, layer: int, expert: int
) -> ExpertWeights:
    """An expert under ``mlp.experts``, on its own or fused with the others into one tensor.

    Apart: experts.N.gate_proj, up_proj, down_proj.   Fused: experts.gate_up_proj [E, 2I, H], gate
    above up, and experts.down_proj [E, H, I].
    """
    prefix = f"model.layers.{layer}.mlp.experts"
    moe = config.moe
    if f"{prefix}.gate_up_proj" not in reader:
        return mlp(reader, f"{prefix}.{expert}", moe.hidden_size, moe.intermediate_size)
    return fused_expert(reader, prefix, config, expert)


def fused_expert(
    reader: TensorReader, prefix: str, config: ModelConfig, expert: int
) -> ExpertWeights:
    """One expert out of the tensors that hold all of a layer."""
    moe = config.moe
    inner, hidden = moe.intermediate_size, moe.hidden_size
    shape = (moe.num_experts, 2 * inner, hidden)
    gate_up = reader.read(f"{prefix}.gate_up_proj", shape, expert)
    down = reader.read(f"{prefix}.down_proj", (moe.num_experts, hidden, inner), expert)
    return ExpertWeights(gate_up[:inner], gate_up[inner:], down)


def plain_router(
    reader: TensorReader, file: ConfigFile, config: ModelConfig, layer: int
) -> RouterWeights:
    """``mlp.gate.weight`` [E, H]."""
    shape = (config.moe.num_experts, config.hidden_size)
    return RouterWeights(reader.read(f"model.layers.{layer}.mlp.gate.weight", shape))
