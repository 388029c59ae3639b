"""Which experts stay in memory: policies, shared by the live cache and offline replays."""

from .catalog import POLICIES, make_policy
from .policies import LRU, Policy
from .replay import Batches, Replay, batches, replay

__all__ = [
    "LRU",
    "POLICIES",
    "Batches",
    "Policy",
    "Replay",
    "batches",
    "make_policy",
    "replay",
]
