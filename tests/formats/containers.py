"""Small random layers, and containers made of them."""

from __future__ import annotations

import numpy as np

from colibri_lab.formats.cbi import write_cbi
from colibri_lab.formats.cbi_layout import FLOAT32, INT8, PER_ROW, PER_TENSOR, plan
from colibri_lab.formats.colibri import ColibriHeader, write_colibri
from colibri_lab.formats.quantize import quantize_expert
from colibri_lab.reference import ExpertWeights

L, E, K, H, I = 2, 3, 2, 8, 5  # noqa: E741  the shape letters of the project


def expert(layer, index, seed=0):
    rng = np.random.default_rng([seed, layer, index])
    shapes = ((I, H), (I, H), (H, I))
    return ExpertWeights(*(rng.normal(size=shape).astype(np.float32) for shape in shapes))


def router(layer, seed=0):
    return np.random.default_rng([seed, 99, layer]).normal(size=(H, E)).astype(np.float32)


def router_bias(layer):
    return np.arange(E, dtype=np.float32) + 10 * layer


def make_colibri(path, code=0, **changes):
    sizes = {"num_layers": L, "num_experts": E, "top_k": K, "hidden_size": H, **changes}
    header = ColibriHeader(**sizes, intermediate_size=I, dtype_code=code)
    write_colibri(path, header, router, expert)
    return header


def make_cbi(path, kind="float32", slots=None, bias=False, alignment=None):
    header = plan(
        num_layers=L,
        num_experts=E,
        hidden_size=H,
        intermediate_size=I,
        top_k=K,
        dtype_code=FLOAT32 if kind == "float32" else INT8,
        scale_granularity=PER_ROW if kind == "row" else PER_TENSOR,
        alignment=alignment,
        has_bias=bias,
    )

    def stored(layer, index):
        weights = expert(layer, index)
        return weights if kind == "float32" else quantize_expert(weights, kind == "row")

    write_cbi(path, header, router, stored, router_bias=router_bias if bias else None, slots=slots)
    return header
