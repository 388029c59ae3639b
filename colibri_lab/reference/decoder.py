"""The whole decoder: embeddings, layers, logits, generation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..capacity import Capacity, CapacityResult
from ..config import ModelConfig
from ..errors import InputError, ShapeError
from .experts import run_shared, swiglu
from .kv_cache import KVCache
from .layer import MoEOutput, moe_layer, route_layer
from .norm import rms_norm
from .sampling import check_sampling, choose_token
from .trace import DECODE, PREFILL, RoutingTrace, TraceRecorder
from .weights import Array, DecoderWeights, LayerWeights, MoELayerWeights

MoEFunction = Callable[[int, Array], Array]
RoutedBy = Callable[[int], CapacityResult]


@dataclass(frozen=True)
class DecoderOutput:
    """What a forward pass gives.

    logits : [B, S, V] float64.   cache : pass it on to go on from here.
    With trace=True: trace, the routing; moe_inputs, an array [B*S, H] float64 for each MoE layer,
    the hidden states it was given (after its norm); moe_outputs, what each of them did.
    """

    logits: NDArray[np.float64]
    cache: KVCache
    trace: RoutingTrace | None = None
    moe_inputs: tuple[Array, ...] = ()
    moe_outputs: tuple[MoEOutput, ...] = ()


@dataclass(frozen=True)
class Generation:
    """token_ids : the new tokens, without the prompt.   trace : prompt and new tokens' routing."""

    token_ids: list[int]
    trace: RoutingTrace | None = None


@dataclass
class _Pass:
    """One forward pass in the making: what the layers share."""

    cache: KVCache
    top_k: int
    capacity: Capacity
    moe: MoEFunction | None
    routed: RoutedBy | None
    recorder: TraceRecorder | None
    start: int
    batch_size: int
    inputs: list[Array]
    outputs: list[MoEOutput]
    guess: NDArray[np.int32] | None = None  # [T, K] of this MoE layer, one layer early


@dataclass(frozen=True)
class Decoder:
    """A model that is ready to run; sums are in float64.

    tokenizer : has encode(text) and decode(ids), or None.
    expert_bytes : bytes of an expert as the checkpoint stores it, one for each MoE layer.
    fingerprint : identifies the weights; it is what runs are compared by.
    """

    config: ModelConfig
    weights: DecoderWeights
    tokenizer: Any = None
    expert_bytes: tuple[int, ...] = ()
    fingerprint: str = ""
    path: str = ""

    def forward(
        self,
        token_ids: Any,
        *,
        cache: KVCache | None = None,
        trace: bool = False,
        top_k: int | None = None,
        capacity: Capacity | None = None,
        moe: MoEFunction | None = None,
        routed: RoutedBy | None = None,
        recorder: TraceRecorder | None = None,
    ) -> DecoderOutput:
        """Logits of every position.

        token_ids : [B, S] or [S] int.   cache : from an earlier output; its positions come first.
        top_k, capacity : in place of the model's own.
        moe : moe(layer, hidden_states [T, H]) -> [T, H] in place of the reference's routed experts;
            layer counts MoE layers alone.
        routed : routed(layer) is what the last `moe` call of a layer routed; without it a trace
            has no rows of a replaced layer.
        recorder : add to this trace (implies trace).
        """
        ids = self.check_token_ids(token_ids)
        cache = KVCache() if cache is None else cache
        if trace and recorder is None:
            recorder = self.recorder()
        state = _Pass(
            cache=cache,
            top_k=self.config.moe.top_k if top_k is None else top_k,
            capacity=capacity or Capacity.none(),
            moe=moe,
            routed=routed,
            recorder=recorder,
            start=self._check_room(cache, ids.shape[1]),
            batch_size=ids.shape[0],
            inputs=[],
            outputs=[],
        )
        x = self.weights.embedding[ids].astype(np.float64)
        for index in range(self.config.num_layers):
            x = self._layer(index, x, state)
        x = rms_norm(x, self.weights.final_norm, self.config.rms_norm_eps)
        logits = x @ self.weights.lm_head.astype(np.float64, copy=False).T
        record = None if recorder is None else recorder.trace()
        return DecoderOutput(logits, cache, record, tuple(state.inputs), tuple(state.outputs))

    def _layer(self, index: int, x: Array, state: _Pass) -> Array:
        layer, eps = self.weights.layers[index], self.config.rms_norm_eps
        normed = rms_norm(x, layer.input_norm, eps)
        x = x + layer.attention(normed, state.cache, index)
        normed = rms_norm(x, layer.post_attention_norm, eps)
        flat = normed.reshape(-1, normed.shape[-1])
        return np.asarray(x + self._feed_forward(index, layer, flat, state).reshape(x.shape))

    def _feed_forward(
        self, index: int, layer: LayerWeights, hidden_states: Array, state: _Pass
    ) -> Array:
        if layer.moe is None:
            if layer.dense is None:
                raise ShapeError(
                    "a layer has neither experts nor a dense feed-forward", found=index
                )
            return swiglu(hidden_states, layer.dense)
        routed = self._moe(self.config.moe_layers.index(index), layer.moe, hidden_states, state)
        if state.recorder is not None and state.recorder.asks_ahead:
            state.guess = self._look_ahead(index, hidden_states, state.top_k)
        shared = layer.moe.shared
        return routed if shared is None else routed + run_shared(hidden_states, shared)

    def _look_ahead(self, index: int, hidden_states: Array, top_k: int) -> NDArray[np.int32] | None:
        """[T, K] what the next MoE layer's router makes of this one's input; None for the last.

        Source: Eliseev and Mazur, arXiv:2312.17238, section 3.2.
        """
        following = (layer.moe for layer in self.weights.layers[index + 1 :] if layer.moe)
        weights = next(following, None)
        if weights is None:
            return None
        return route_layer(hidden_states, weights, top_k, self.config.moe.rule).topk_ids

    def _moe(
        self, index: int, weights: MoELayerWeights, hidden_states: Array, state: _Pass
    ) -> Array:
        if state.recorder is not None:
            state.inputs.append(hidden_states)
        if state.moe is not None:
            replaced = state.moe(index, hidden_states)
            if state.routed is not None:
                _record(state, index, state.routed(index))
            return replaced
        output = moe_layer(
            hidden_states, weights, state.top_k, state.capacity, self.config.moe.rule
        )
        if state.recorder is not None:
            state.outputs.append(output)
            _record(state, index, output.assigned)
        return output.hidden_states

    def generate(
        self,
        token_ids: Sequence[int],
        max_new_tokens: int,
        *,
        temperature: float = 0.0,
        top_p: float = 1.0,
        seed: int = 0,
        top_k: int | None = None,
        capacity: Capacity | None = None,
        moe: MoEFunction | None = None,
        routed: RoutedBy | None = None,
        trace: bool = False,
        on_token: Callable[[int], None] | None = None,
    ) -> Generation:
        """New tokens after a prompt, greedy at temperature 0, else sampled with the seed.

        token_ids : the prompt, at least one id.   top_k : experts a token, not sampling.
        Stops after max_new_tokens, at the end-of-text token (left out), or when the model's
        positions are used up.
        """
        check_sampling(temperature, top_p, seed)
        if max_new_tokens < 0:
            raise InputError(
                "max_new_tokens is negative", expected="0 or more", found=max_new_tokens
            )
        ids = self.check_token_ids(token_ids)
        if len(ids) != 1:
            raise InputError("generate takes one prompt", expected="[S] ids", found=list(ids.shape))
        generator = np.random.default_rng(seed)
        recorder = self.recorder() if trace else None
        cache, new = KVCache(), []
        self._check_room(cache, ids.shape[1])
        room = self.config.max_seq_len - ids.shape[1]
        for _ in range(min(max_new_tokens, room)):
            output = self.forward(
                ids,
                cache=cache,
                top_k=top_k,
                capacity=capacity,
                moe=moe,
                routed=routed,
                recorder=recorder,
            )
            token = choose_token(output.logits[0, -1], temperature, top_p, generator)
            if token in self.config.eos_token_ids:
                break
            new.append(token)
            if on_token is not None:
                on_token(token)
            ids = np.array([[token]])
        return Generation(new, None if recorder is None else recorder.trace())

    def moe_weights(self, layer: int) -> MoELayerWeights:
        """The weights of an MoE layer, counted among the MoE layers."""
        weights = self.weights.layers[self.config.moe_layers[layer]].moe
        if weights is None:
            raise ShapeError("a layer that should have experts has none", found=layer)
        return weights

    def recorder(self) -> TraceRecorder:
        """An empty trace of this model's shape."""
        config = self.config
        layers = config.num_moe_layers
        sizes = self.expert_bytes or (0,) * layers
        return TraceRecorder(
            layers, config.moe.num_experts, sizes, self.path, "colibri_lab reference"
        )

    def check_token_ids(self, token_ids: Any) -> NDArray[np.int64]:
        """token_ids as [B, S] int64; InputError for an empty prompt or an id out of range."""
        ids = np.asarray(token_ids)
        if ids.size == 0:
            raise InputError(
                "the prompt is empty", expected="one token or more", hint="give some text"
            )
        if ids.ndim not in (1, 2) or not np.issubdtype(ids.dtype, np.integer):
            raise InputError(
                "token_ids must be whole numbers",
                expected="[S] or [B, S] of integers",
                found=f"{list(ids.shape)} of {ids.dtype}",
            )
        outside = ids[(ids < 0) | (ids >= self.config.vocab_size)]
        if outside.size:
            raise InputError(
                "a token id is outside the vocabulary",
                expected=f"0 to {self.config.vocab_size - 1}",
                found=int(outside[0]),
                hint="encode the text with this model's own tokenizer",
            )
        return np.atleast_2d(ids).astype(np.int64)

    def _check_room(self, cache: KVCache, new: int) -> int:
        """The first new position; InputError where the sequence would be too long."""
        total = cache.length + new
        if total > self.config.max_seq_len:
            raise InputError(
                "the sequence is longer than the model's positions",
                expected=f"at most {self.config.max_seq_len} tokens",
                found=total,
                hint="shorten the prompt or split it",
            )
        return cache.length


def _record(state: _Pass, layer: int, assigned: CapacityResult) -> None:
    """Add a layer call to the trace, where there is one."""
    if state.recorder is not None:
        state.recorder.add(
            layer,
            assigned.topk_ids,
            assigned.topk_weights,
            batch_size=state.batch_size,
            start=state.start,
            phase=DECODE if state.start else PREFILL,
            lookahead=state.guess,
        )
