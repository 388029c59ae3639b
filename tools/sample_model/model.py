"""A small Mixtral-type language model in PyTorch, for training and measuring.

The mathematics is that of ``MixtralForCausalLM``; the tests compare the logits. Parameters are
fused per layer while training and are exported under the published Mixtral names.
"""

import math
from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class Config:
    """Sizes of the model, under the names of ``config.json``."""

    vocab_size: int = 2048
    hidden_size: int = 128
    intermediate_size: int = 192
    num_hidden_layers: int = 4
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    num_local_experts: int = 16
    num_experts_per_tok: int = 2
    max_position_embeddings: int = 2048
    rope_theta: float = 10000.0
    rms_norm_eps: float = 1e-5
    initializer_range: float = 0.02
    router_aux_loss_coef: float = 0.01

    @property
    def head_dim(self) -> int:
        """Width of one attention head."""
        return self.hidden_size // self.num_attention_heads

    def published(self) -> dict[str, object]:
        """Return the contents of ``config.json`` in the published Mixtral layout."""
        return {
            "architectures": ["MixtralForCausalLM"],
            "model_type": "mixtral",
            **asdict(self),
            "head_dim": self.head_dim,
            "hidden_act": "silu",
            "rope_parameters": {"rope_type": "default", "rope_theta": self.rope_theta},
            "sliding_window": None,
            "attention_dropout": 0.0,
            "router_jitter_noise": 0.0,
            "output_router_logits": False,
            "tie_word_embeddings": True,
            "use_cache": True,
            "bos_token_id": 0,
            "eos_token_id": 0,
            "torch_dtype": "bfloat16",
        }


@dataclass
class Routing:
    """What one MoE layer did with one batch: the inputs of the balance loss and of the tables."""

    probabilities: Tensor  # [T, E] softmax of the router logits
    topk_ids: Tensor  # [T, K]
    kept: Tensor  # [T, K] bool, False where capacity dropped the choice


class RMSNorm(nn.Module):
    """Root-mean-square normalisation with a learnt gain."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalise the last axis."""
        return F.rms_norm(x, (x.shape[-1],), self.weight, self.eps)


def rotary_tables(positions: int, head_dim: int, theta: float) -> tuple[Tensor, Tensor]:
    """Return cosines and sines ``[positions, head_dim]`` of the rotary embedding."""
    inverse = 1.0 / theta ** (torch.arange(0, head_dim, 2).float() / head_dim)
    angles = torch.outer(torch.arange(positions).float(), inverse)
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos(), angles.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Apply the rotary embedding to ``x`` ``[batch, heads, positions, head_dim]``."""
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), dim=-1) * sin


class Attention(nn.Module):
    """Causal attention with grouped key and value heads."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.heads, self.kv_heads = config.num_attention_heads, config.num_key_value_heads
        self.head_dim = config.head_dim
        hidden = config.hidden_size
        self.q_proj = nn.Linear(hidden, self.heads * self.head_dim, bias=False)
        self.k_proj = nn.Linear(hidden, self.kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(hidden, self.kv_heads * self.head_dim, bias=False)
        self.o_proj = nn.Linear(self.heads * self.head_dim, hidden, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Attend within ``x`` ``[batch, positions, H]``."""
        batch, positions, _ = x.shape
        shape = (batch, positions, -1, self.head_dim)
        query = rotate(self.q_proj(x).view(shape).transpose(1, 2), cos, sin)
        key = rotate(self.k_proj(x).view(shape).transpose(1, 2), cos, sin)
        value = self.v_proj(x).view(shape).transpose(1, 2)
        group = self.heads // self.kv_heads
        key, value = (t.repeat_interleave(group, dim=1) for t in (key, value))
        out = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.o_proj(out.transpose(1, 2).reshape(batch, positions, -1))


class MoE(nn.Module):
    """Router and SwiGLU experts; the chosen weights are renormalised.

    ``top_k`` and ``capacity`` may be changed after training to see what they cost. ``capacity``
    takes ``(probabilities, topk_ids, topk_weights)`` and returns new ids, weights and a mask of
    the choices that are kept.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        experts, hidden = config.num_local_experts, config.hidden_size
        inner, layers = config.intermediate_size, config.num_hidden_layers
        std = config.initializer_range
        self.top_k, self.capacity = config.num_experts_per_tok, None
        self.gate = nn.Linear(hidden, experts, bias=False)
        self.gate_up = nn.Parameter(torch.randn(experts, 2 * inner, hidden) * std)
        self.down = nn.Parameter(torch.randn(experts, hidden, inner) * std / math.sqrt(2 * layers))

    def route(self, tokens: Tensor) -> tuple[Tensor, Routing]:
        """Return the weights ``[T, K]`` and the routing of ``tokens`` ``[T, H]``."""
        probabilities = self.gate(tokens).float().softmax(dim=-1)
        weights, ids = probabilities.topk(self.top_k, dim=-1)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        kept = torch.ones_like(ids, dtype=torch.bool)
        if self.capacity is not None:
            ids, weights, kept = self.capacity(probabilities, ids, weights)
        return weights * kept, Routing(probabilities, ids, kept)

    def forward(self, x: Tensor) -> tuple[Tensor, Routing]:
        """Send every token of ``x`` to its experts and add up what they return."""
        tokens = x.reshape(-1, x.shape[-1])
        weights, routing = self.route(tokens)
        choices = routing.topk_ids.reshape(-1)
        order = choices.argsort(stable=True)
        counts = torch.bincount(choices, minlength=self.gate.out_features).tolist()
        source = order // self.top_k
        parts = tokens.index_select(0, source).split(counts)
        outputs = [
            F.linear(F.silu(gate) * up, down)
            for part, gate_up, down in zip(parts, self.gate_up, self.down, strict=True)
            for gate, up in [F.linear(part, gate_up).chunk(2, dim=-1)]
        ]
        scaled = torch.cat(outputs) * weights.reshape(-1).index_select(0, order)[:, None]
        return torch.zeros_like(tokens).index_add(0, source, scaled).view_as(x), routing


class Layer(nn.Module):
    """One decoder layer."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.moe = MoE(config)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Routing]:
        """Return the layer's output and its routing."""
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        update, routing = self.moe(self.post_attention_layernorm(x))
        return x + update, routing


class LanguageModel(nn.Module):
    """Token ids to logits, with tied input and output embeddings."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                scale = math.sqrt(2 * config.num_hidden_layers) if "o_proj" in name else 1.0
                nn.init.normal_(parameter, 0.0, config.initializer_range / scale)
        cos, sin = rotary_tables(config.max_position_embeddings, config.head_dim, config.rope_theta)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def forward(self, ids: Tensor) -> tuple[Tensor, list[Routing]]:
        """Return logits ``[batch, positions, vocabulary]`` and the routing of every layer."""
        x, positions = self.embed_tokens(ids), ids.shape[1]
        routings = []
        for layer in self.layers:
            x, routing = layer(x, self.cos[:positions], self.sin[:positions])
            routings.append(routing)
        return F.linear(self.norm(x), self.embed_tokens.weight), routings


def balance_loss(routing: Routing) -> Tensor:
    """Return the load-balancing loss of one layer, ``E * sum_e f_e P_e``.

    ``f`` counts all K choices, as transformers' ``load_balancing_loss_func`` does.
    Source: Fedus, Zoph, Shazeer, Switch Transformers, 2022, equation 4.
    """
    tokens, experts = routing.probabilities.shape
    share = torch.bincount(routing.topk_ids.reshape(-1), minlength=experts).float() / tokens
    return experts * (share * routing.probabilities.mean(dim=0)).sum()


def published_state(model: LanguageModel) -> dict[str, Tensor]:
    """Return the weights under the published Mixtral names."""
    state = {}
    for name, value in model.state_dict().items():
        block, _, part = f"model.{name}".partition(".moe.")
        block += ".block_sparse_moe"
        if not part:
            state[f"model.{name}"] = value
        elif part == "gate.weight":
            state[f"{block}.gate.weight"] = value
        elif part == "gate_up":
            for expert, fused in enumerate(value):
                w1, w3 = fused.chunk(2, dim=0)
                state[f"{block}.experts.{expert}.w1.weight"] = w1.contiguous()
                state[f"{block}.experts.{expert}.w3.weight"] = w3.contiguous()
        else:
            for expert, down in enumerate(value):
                state[f"{block}.experts.{expert}.w2.weight"] = down.contiguous()
    return state


def read_published_state(model: LanguageModel, state: dict[str, Tensor]) -> None:
    """Load weights given under the published Mixtral names; the inverse of `published_state`."""
    experts = range(model.config.num_local_experts)
    fused = {}
    for name in model.state_dict():
        block = f"model.{name.partition('.moe.')[0]}.block_sparse_moe"
        if name.endswith(".moe.gate_up"):
            pairs = [
                [state[f"{block}.experts.{e}.{w}.weight"] for w in ("w1", "w3")] for e in experts
            ]
            fused[name] = torch.stack([torch.cat(pair) for pair in pairs])
        elif name.endswith(".moe.down"):
            fused[name] = torch.stack([state[f"{block}.experts.{e}.w2.weight"] for e in experts])
        elif name.endswith(".moe.gate.weight"):
            fused[name] = state[f"{block}.gate.weight"]
        else:
            fused[name] = state[f"model.{name}"]
    model.load_state_dict({name: weight.float() for name, weight in fused.items()})
