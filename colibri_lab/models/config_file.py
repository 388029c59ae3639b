"""Reading fields of config.json, with errors that name them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from ..config import ModelConfig, MoEConfig
from ..errors import ColibriError, ModelError
from ..reference.rope import Rope, YarnStretch, plain_rope, yarn_magnitude, yarn_rope

ConfigFile = Mapping[str, Any]


def field(file: ConfigFile, name: str, kind: type, default: Any = None) -> Any:
    """A value of the right type; ModelError names it where it is missing or wrong.

    null counts as missing.
    """
    value = file.get(name)
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


def over_zero(file: ConfigFile, name: str, default: float | None = None) -> float:
    """A number that a formula divides by or takes the logarithm of."""
    value = float(field(file, name, float, default))
    if not 0.0 < value < math.inf:
        raise ModelError(
            f'config.json: "{name}" is out of range', expected="a number over 0", found=repr(value)
        )
    return value


def optional(file: ConfigFile, name: str, kind: type) -> Any:
    """A value of the right type, or None where it is missing or null."""
    return None if file.get(name) is None else field(file, name, kind)


def require(file: ConfigFile, name: str, *allowed: Any) -> None:
    """ModelError where a value is neither missing nor one of those that are known."""
    if file.get(name) not in (None, *allowed):
        raise ModelError(
            f'config.json: this "{name}" is not known',
            expected=" or ".join(map(str, allowed)),
            found=file[name],
        )


def token_ids(file: ConfigFile, name: str) -> tuple[int, ...]:
    """One id, a list of ids or null -> a tuple."""
    value = file.get(name)
    values = value if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(item, int) for item in values):
        raise ModelError(
            f'config.json: "{name}" is of a wrong type',
            expected="a token id, a list of them, or null",
            found=repr(value),
        )
    return tuple(values)


def sliding_windows(
    file: ConfigFile, window: int | None, slides: Callable[[int], bool]
) -> tuple[int | None, ...]:
    """A layer's window, or None where it looks at everything.

    slides : whether a layer has the window, where config.json has no "layer_types".
    """
    layers = range(field(file, "num_hidden_layers", int))
    kinds = field(file, "layer_types", list, []) or [
        "sliding_attention" if slides(layer) else "full_attention" for layer in layers
    ]
    known = {"full_attention": None, "sliding_attention": window}
    if len(kinds) != len(layers) or set(kinds) - set(known):
        raise ModelError(
            'config.json: "layer_types" cannot be used',
            expected=f"{' or '.join(known)} for each of {len(layers)} layers",
            found=kinds,
        )
    return tuple(known[kind] for kind in kinds)


def model_config(file: ConfigFile, moe: MoEConfig, **changes: Any) -> ModelConfig:
    """The fields that every family names alike.

    changes : fields of ModelConfig in place of those read here.
    """
    require(file, "hidden_act", "silu")
    if changes.get("moe_layers") == () and field(file, "num_hidden_layers", int) > 0:
        raise ModelError("config.json: no layer has experts", expected="one or more")
    num_heads = field(file, "num_attention_heads", int)
    fields: dict[str, Any] = {
        "model_type": field(file, "model_type", str, "unknown"),
        "vocab_size": field(file, "vocab_size", int),
        "hidden_size": field(file, "hidden_size", int),
        "num_layers": field(file, "num_hidden_layers", int),
        "num_heads": num_heads,
        "num_kv_heads": field(file, "num_key_value_heads", int, num_heads),
        "head_dim": field(file, "head_dim", int, moe.hidden_size // max(num_heads, 1)),
        "rms_norm_eps": over_zero(file, "rms_norm_eps", 1e-6),
        "max_seq_len": field(file, "max_position_embeddings", int),
        "tie_embeddings": field(file, "tie_word_embeddings", bool, False),
        "dense_intermediate_size": optional(file, "intermediate_size", int),
        "eos_token_ids": token_ids(file, "eos_token_id"),
    }
    return ModelConfig(moe=moe, **{**fields, **changes})


def rope_parameters(file: ConfigFile) -> dict[str, Any]:
    """Newer files have rope_parameters, older ones rope_theta and rope_scaling."""
    scaling = file.get("rope_parameters") or file.get("rope_scaling") or {}
    if not isinstance(scaling, Mapping):
        raise ModelError(
            "config.json: the rotary parameters are of a wrong type",
            expected="an object",
            found=repr(scaling),
        )
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    theta = over_zero({**file, **scaling}, "rope_theta", 10000.0)
    return {**scaling, "rope_type": kind, "rope_theta": theta}


def rope(file: ConfigFile, head_dim: int, interleaved: bool = False) -> Rope:
    """The rotary embedding that config.json describes: plain, or stretched by YaRN."""
    values = rope_parameters(file)
    kind, theta = values["rope_type"], values["rope_theta"]
    require({**file, **values}, "partial_rotary_factor", 1.0)
    if kind == "default":
        return plain_rope(head_dim, theta, interleaved)
    if kind != "yarn":
        raise ModelError(
            "config.json: this kind of rotary embedding is not known",
            expected="default or yarn",
            found=kind,
        )
    stretch = YarnStretch(
        factor=over_zero(values, "factor"),
        original_length=field(
            values, "original_max_position_embeddings", int, file.get("max_position_embeddings")
        ),
        beta_fast=field(values, "beta_fast", float, 32.0),
        beta_slow=field(values, "beta_slow", float, 1.0),
        truncate=field(values, "truncate", bool, True),
    )
    magnitude = _magnitude(values, stretch.factor)
    return yarn_rope(head_dim, theta, stretch, magnitude=magnitude, interleaved=interleaved)


def _magnitude(values: Mapping[str, Any], factor: float) -> float:
    given = optional(values, "attention_factor", float)
    if given is not None:
        return float(given)
    weight = field(values, "mscale", float, 0.0)
    weight_all = field(values, "mscale_all_dim", float, 0.0)
    if weight and weight_all:
        return yarn_magnitude(factor, weight) / yarn_magnitude(factor, weight_all)
    return yarn_magnitude(factor)


def located(path: Any, error: ColibriError) -> ModelError:
    """The same complaint as a ModelError about a file."""
    return ModelError(
        error.message, path=path, expected=error.expected, found=error.found, hint=error.hint
    )
