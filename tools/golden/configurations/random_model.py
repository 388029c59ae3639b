"""What a row of the tables says: how to draw one small model, and what to ask it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, Literal


@dataclass(frozen=True)
class Prompts:
    """lengths : of the prompts.   whole : of how long a prompt numbers are stored everywhere."""

    lengths: tuple[int, ...]
    whole: int


THOROUGH = Prompts((1, 2, 7, 33, 128, 512), whole=33)
SHORT = Prompts((1, 7, 33, 128), whole=7)
LONG = Prompts((1, 7, 33, 512), whole=7)


@dataclass(frozen=True)
class RandomModel:
    """How to draw one checkpoint.

    base : fields of config.json that the family's rows share; a "rope_theta" means a plain rotary
        embedding.   changes : those that differ.
    dtype : what the weights are stored in.   shard_bytes : largest file of a sharded checkpoint;
        None: one file.
    published_config : write config.json as the published checkpoints of the time of transformers 4
        spell it (rope_theta, rope_scaling and torch_dtype at the top level), not as
        transformers 5 does.
    layout : how experts are stored; gpt-oss has no "apart".
    """

    base: dict[str, Any]
    seed: int
    dtype: str = "float32"
    shard_bytes: int | None = None
    published_config: bool = False
    layout: Literal["apart", "fused", "mxfp4"] = "apart"
    prompts: Prompts = SHORT
    changes: dict[str, Any] = field(default_factory=dict)

    @property
    def config(self) -> dict[str, Any]:
        return {**self.base, **self.changes}


def family(base: dict[str, Any], **defaults: Any) -> Callable[..., RandomModel]:
    """What a table is written with: row(seed, whatever differs of `defaults` and of `base`)."""
    own = {each.name for each in fields(RandomModel)}

    def row(seed: int, **given: Any) -> RandomModel:
        options = {name: value for name, value in given.items() if name in own}
        changes = {name: value for name, value in given.items() if name not in own}
        return RandomModel(base, seed, changes=changes, **{**defaults, **options})

    return row
