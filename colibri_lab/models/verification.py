"""Reading every value of a checkpoint or container, in search of those that are not finite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ..formats.quantize import QuantizedExpert
from ..formats.safetensors_io import CheckpointFiles
from ..reference.weights import Array
from .containers import ContainerExperts, open_container


def verify_path(path: Path) -> list[str]:
    """One line for each tensor, or expert's matrix, that has NaN or infinity; [] where none has."""
    if path.is_dir():
        with CheckpointFiles(path) as files:
            return [*_checkpoint(files)]
    with ContainerExperts(open_container(path)) as experts:
        return [*_container(experts)]


def _checkpoint(files: CheckpointFiles) -> Iterator[str]:
    for name in files.names:
        tensor = files.read(name, files.shape(name))
        yield from _problem(f"tensor {name}", tensor)


def _container(experts: ContainerExperts) -> Iterator[str]:
    sizes = experts.sizes
    for layer in range(sizes.num_layers):
        yield from _problem(f"layer {layer}, router", experts.router(layer))
        bias = experts.router_bias(layer)
        if bias is not None:
            yield from _problem(f"layer {layer}, router bias", bias)
        for expert in range(sizes.num_experts):
            where = f"layer {layer}, expert {expert}"
            weights = experts.stored(layer, expert)
            if isinstance(weights, QuantizedExpert):
                yield from _problem(f"{where}, scales", weights.scales)
                continue
            for part in ("gate", "up", "down"):
                yield from _problem(f"{where}, {part}", getattr(weights, part))


def _problem(where: str, values: Array) -> Iterator[str]:
    wide = values.astype(np.float32) if values.dtype.itemsize < 4 else values
    bad = ~np.isfinite(wide)
    count = int(np.count_nonzero(bad))
    if count:
        first = [int(index) for index in np.argwhere(bad)[0]]
        yield f"{where}: {count} of {values.size} values are not finite, the first at {first}"
