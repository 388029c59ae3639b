"""The NumPy truth: every other backend is held against it.  Sums are in float64."""

from .aggregate import aggregate
from .attention import GroupedQueryAttention, LatentAttention, Linear
from .decoder import Decoder, DecoderOutput, Generation
from .dispatch import Dispatch, dispatch
from .experts import run_experts, run_shared, silu, swiglu
from .kv_cache import KVCache
from .layer import MoEOutput, moe_layer
from .norm import rms_norm
from .rope import Rope
from .router import Routing, route, route_logits, softmax
from .trace import RoutingTrace, TraceRecorder
from .weights import (
    Clamp,
    DecoderWeights,
    ExpertBias,
    ExpertWeights,
    LayerWeights,
    MoELayerWeights,
    SharedExpert,
)

__all__ = [
    "Clamp",
    "Decoder",
    "DecoderOutput",
    "DecoderWeights",
    "Dispatch",
    "ExpertBias",
    "ExpertWeights",
    "Generation",
    "GroupedQueryAttention",
    "KVCache",
    "LatentAttention",
    "LayerWeights",
    "Linear",
    "MoELayerWeights",
    "MoEOutput",
    "Rope",
    "Routing",
    "RoutingTrace",
    "SharedExpert",
    "TraceRecorder",
    "aggregate",
    "dispatch",
    "moe_layer",
    "rms_norm",
    "route",
    "route_logits",
    "run_experts",
    "run_shared",
    "silu",
    "softmax",
    "swiglu",
]
