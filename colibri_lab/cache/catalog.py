"""The policies by name."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import InputError
from .adaptive import ARC, LRFU, S3FIFO, LFUDecay
from .pins import PinThree
from .policies import CLOCK, FIFO, LFU, LRU, Policy, Random

POLICIES: dict[str, Callable[[], Policy]] = {
    "lru": LRU,
    "fifo": FIFO,
    "clock": CLOCK,
    "lfu": LFU,
    "lfu-decay": LFUDecay,
    "lrfu": LRFU,
    "s3-fifo": S3FIFO,
    "arc": ARC,
    "pin-three": PinThree,
    "random": Random,
}


def make_policy(name: str) -> Policy:
    """A fresh policy by name; InputError lists the known ones."""
    if name not in POLICIES:
        raise InputError(
            "cache policy is not known", expected=f"one of {', '.join(POLICIES)}", found=name
        )
    return POLICIES[name]()
