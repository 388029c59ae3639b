"""What a model family must tell: its configuration, and the names of its tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..config import ModelConfig
from ..errors import ColibriError, ModelError

ConfigFile = Mapping[str, Any]


@dataclass(frozen=True)
class Family:
    """One model family.

    architecture : the name that config.json gives under "architectures".
    read_config : config.json's contents -> ModelConfig.
    router, experts : name of a layer's router [E, H]; of an expert's (gate, up, down).
    layer : a layer's other tensors, part -> name; model : the tensors outside the layers.
    """

    architecture: str
    read_config: Callable[[ConfigFile], ModelConfig]
    router: Callable[[int], str]
    expert: Callable[[int, int], tuple[str, str, str]]
    layer: Callable[[int], dict[str, str]]
    model: Mapping[str, str]


def field(config: ConfigFile, name: str, kind: type, default: Any = None) -> Any:
    """A value of config.json of the right type; ModelError names it where missing or wrong."""
    value = config.get(name)
    if value is None:
        value = default
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ModelError(
            f'config.json: "{name}" is missing or of a wrong type',
            expected=kind.__name__,
            found=repr(value),
        )
    return value


def token_ids(config: ConfigFile, name: str) -> tuple[int, ...]:
    """One id, a list of ids or null in config.json -> a tuple."""
    value = config.get(name)
    values = value if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(item, int) for item in values):
        raise ModelError(
            f'config.json: "{name}" is of a wrong type',
            expected="a token id, a list of them, or null",
            found=repr(value),
        )
    return tuple(values)


def located(path: Any, error: ColibriError) -> ModelError:
    """The same complaint as a ModelError about a file."""
    return ModelError(
        error.message, path=path, expected=error.expected, found=error.found, hint=error.hint
    )
