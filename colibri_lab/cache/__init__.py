"""Which experts stay in memory: policies, shared by the live cache and offline replays."""

from .budget import Budget, Rules
from .calls import Batches, batches
from .catalog import POLICIES, make_policy
from .policies import LRU, Policy
from .replay import Replay, replay

__all__ = [
    "LRU",
    "POLICIES",
    "Batches",
    "Budget",
    "Policy",
    "Replay",
    "Rules",
    "batches",
    "make_policy",
    "replay",
]
