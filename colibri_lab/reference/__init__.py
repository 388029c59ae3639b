"""The NumPy truth: every other backend is held against it.  Sums are in float64."""

from .aggregate import aggregate
from .attention import KVCache, attention
from .decoder import Decoder, DecoderOutput, Generation
from .dispatch import Dispatch, dispatch
from .experts import run_experts, silu, swiglu
from .layer import MoEOutput, moe_layer
from .norm import rms_norm
from .router import Routing, route, route_logits, softmax
from .trace import RoutingTrace, TraceRecorder
from .weights import (
    AttentionWeights,
    DecoderWeights,
    ExpertWeights,
    LayerWeights,
    MoELayerWeights,
)

__all__ = [
    "AttentionWeights",
    "Decoder",
    "DecoderOutput",
    "DecoderWeights",
    "Dispatch",
    "ExpertWeights",
    "Generation",
    "KVCache",
    "LayerWeights",
    "MoELayerWeights",
    "MoEOutput",
    "Routing",
    "RoutingTrace",
    "TraceRecorder",
    "aggregate",
    "attention",
    "dispatch",
    "moe_layer",
    "rms_norm",
    "route",
    "route_logits",
    "run_experts",
    "silu",
    "softmax",
    "swiglu",
]
