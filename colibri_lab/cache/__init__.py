"""Which experts stay in memory: policies, shared by the live cache and offline replays."""

from .policies import LRU, POLICIES, Policy, make_policy

__all__ = ["LRU", "POLICIES", "Policy", "make_policy"]
