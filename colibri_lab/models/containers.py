"""Experts and routers, wherever they are stored: a checkpoint folder, ``.colibri`` or ``.cbi``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from ..errors import FormatError, InputError
from ..formats.cbi import CbiFile, Stored
from ..formats.colibri import ColibriFile
from ..reference.weights import Array, Clamp, ExpertBias, ExpertWeights
from .checkpoint import Checkpoint, open_checkpoint

SUFFIXES = (".colibri", ".cbi")


@dataclass(frozen=True)
class Sizes:
    """L MoE layers, E experts a layer, K a token, H and I."""

    num_layers: int
    num_experts: int
    top_k: int
    hidden_size: int
    intermediate_size: int


class ExpertSource(Protocol):
    """What conversion reads from and `--experts` computes with."""

    sizes: Sizes

    def router(self, layer: int) -> Array:
        """[H, E] float."""
        ...

    def router_bias(self, layer: int) -> Array | None:
        """[E] float, or None."""
        ...

    def expert(self, layer: int, expert: int) -> ExpertWeights: ...

    def expert_bytes(self, layer: int) -> int:
        """Bytes of an expert as it is stored."""
        ...

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class _Source:
    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class CheckpointExperts(_Source):
    """The experts of a checkpoint folder, as float32."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.checkpoint = checkpoint
        config, moe = checkpoint.config, checkpoint.config.moe
        self.sizes = Sizes(
            config.num_moe_layers, moe.num_experts, moe.top_k, moe.hidden_size,
            moe.intermediate_size,
        )  # fmt: skip

    def router(self, layer: int) -> Array:
        return np.ascontiguousarray(self.checkpoint.router(layer).weight.T)

    def router_bias(self, layer: int) -> Array | None:
        return self.checkpoint.router(layer).bias

    def expert(self, layer: int, expert: int) -> ExpertWeights:
        return self.checkpoint.read_expert(layer, expert)

    def expert_bytes(self, layer: int) -> int:
        return self.checkpoint.expert_bytes(layer)

    def close(self) -> None:
        self.checkpoint.close()


class ContainerExperts(_Source):
    """The experts of a ``.colibri`` or ``.cbi`` file, as views or de-quantised copies."""

    def __init__(self, file: ColibriFile | CbiFile) -> None:
        self.file = file
        head = file.header
        self.sizes = Sizes(
            head.num_layers, head.num_experts, head.top_k, head.hidden_size,
            head.intermediate_size,
        )  # fmt: skip

    def router(self, layer: int) -> Array:
        return self.file.router(layer)

    def router_bias(self, layer: int) -> Array | None:
        return self.file.router_bias(layer) if isinstance(self.file, CbiFile) else None

    def expert(self, layer: int, expert: int) -> ExpertWeights:
        return self.file.expert(layer, expert)

    def stored(self, layer: int, expert: int) -> Stored:
        """The expert as the file has it, not de-quantised."""
        if isinstance(self.file, CbiFile):
            return self.file.stored_expert(layer, expert)
        return self.file.expert(layer, expert)

    def expert_bytes(self, layer: int) -> int:
        return self.file.header.expert_bytes

    def close(self) -> None:
        self.file.close()


class UnfoldedExperts(_Source):
    """A container with folded biases, given back with its biases apart.

    source : of hidden size H+1 and intermediate size I+1.
    """

    def __init__(self, source: ExpertSource, clamp: Clamp | None) -> None:
        self.source, self.clamp = source, clamp
        sizes = source.sizes
        self.sizes = replace(
            sizes,
            hidden_size=sizes.hidden_size - 1,
            intermediate_size=sizes.intermediate_size - 1,
        )

    def router(self, layer: int) -> Array:
        return np.asarray(self.source.router(layer)[:-1])

    def router_bias(self, layer: int) -> Array | None:
        return np.asarray(self.source.router(layer)[-1])

    def expert(self, layer: int, expert: int) -> ExpertWeights:
        return replace(unfold(self.source.expert(layer, expert)), clamp=self.clamp)

    def expert_bytes(self, layer: int) -> int:
        return self.source.expert_bytes(layer)

    def close(self) -> None:
        self.source.close()


def open_experts(path: str | Path) -> CheckpointExperts | ContainerExperts:
    """Open a checkpoint folder, a ``.colibri`` or a ``.cbi`` file, recognised by content."""
    path = Path(path)
    if path.is_dir():
        return CheckpointExperts(open_checkpoint(path))
    return ContainerExperts(open_container(path))


def open_container(path: Path) -> ColibriFile | CbiFile:
    """Open a ``.colibri`` or ``.cbi`` file by its magic bytes; FormatError for anything else."""
    try:
        with path.open("rb") as file:
            magic = file.read(8)
    except OSError as error:
        raise FormatError("the file cannot be opened", path=path, found=error.strerror) from error
    if magic == b"COLIBRI\0":
        return CbiFile(path)
    if magic[:4] == b"COLI":
        return ColibriFile(path)
    raise FormatError(
        "the file is no expert container",
        path=path,
        offset=0,
        expected="COLI (.colibri) or COLIBRI and a zero byte (.cbi)",
        found=magic,
    )


def fold(expert: ExpertWeights) -> ExpertWeights:
    """Biases put into one more row and column, for an input with a constant one at its end.

    Hidden unit I+1 is 1 whatever the token: its gate and up see the constant alone. Its column of
    `down` is the output's bias. Returns gate, up [I+1, H+1] and down [H+1, I+1].
    """
    if expert.bias is None:
        raise InputError("the expert has no biases to fold", expected="an expert with biases")
    gate_one, up_one = _unit(expert.clamp)
    return ExpertWeights(
        gate=_framed(expert.gate, expert.bias.gate, gate_one),
        up=_framed(expert.up, expert.bias.up, up_one),
        down=_framed(expert.down, expert.bias.down, 0.0),
        clamp=expert.clamp,
    )


def unfold(expert: ExpertWeights) -> ExpertWeights:
    """The inverse of `fold`, as views."""
    bias = ExpertBias(expert.gate[:-1, -1], expert.up[:-1, -1], expert.down[:-1, -1])
    return ExpertWeights(expert.gate[:-1, :-1], expert.up[:-1, :-1], expert.down[:-1, :-1], bias)


def _framed(matrix: Array, bias: Array, corner: float) -> NDArray[np.float32]:
    rows, columns = matrix.shape
    framed = np.zeros((rows + 1, columns + 1), np.float32)
    framed[:-1, :-1] = matrix
    framed[:-1, -1] = bias
    framed[-1, -1] = corner
    return framed


def _unit(clamp: Clamp | None) -> tuple[float, float]:
    """A gate and an up that the activation makes 1 of."""
    gate = 1.0
    if clamp is None:
        return gate, float(1.0 + np.exp(-gate))
    return gate, float(np.exp(-clamp.alpha * gate))


def clamp_of(checkpoint: Checkpoint) -> Clamp | None:
    """The activation's clamp, which containers do not hold."""
    return checkpoint.expert_shape(0, 0).clamp


def experts_for(checkpoint: Checkpoint, path: str | Path) -> ExpertSource:
    """The experts of a container, held against the checkpoint that the rest comes from.

    FormatError where the sizes differ. A container with folded biases is unfolded.
    """
    source: ExpertSource = ContainerExperts(open_container(Path(path)))
    wanted, clamp = CheckpointExperts(checkpoint).sizes, clamp_of(checkpoint)
    folded = source.sizes.hidden_size == wanted.hidden_size + 1
    if folded:
        source = UnfoldedExperts(source, clamp)
    found = replace(source.sizes, top_k=wanted.top_k)
    if found != wanted:
        source.close()
        raise FormatError(
            "the experts do not belong to this checkpoint",
            path=path,
            expected=_spelled(wanted),
            found=_spelled(found),
            hint="convert this checkpoint's own experts",
        )
    return source


def _spelled(sizes: Sizes) -> str:
    values: dict[str, Any] = vars(sizes)
    return ", ".join(f"{name} {value}" for name, value in values.items() if name != "top_k")
