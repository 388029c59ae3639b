"""The shipped figures hold together, and the claims that the notebooks rest on are in them."""

from __future__ import annotations

import json
import math
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

DATA = Path(__file__).parents[2] / "data"


@pytest.fixture(scope="module")
def figures():
    return json.loads((DATA / "tiny-moe" / "evaluation.json").read_text())


def test_every_domain_beats_both_trigrams(figures):
    for domain, row in figures["loss"].items():
        trigram = row["trigram"]
        best = min(trigram["all_domains_nats_per_token"], trigram["own_domain_nats_per_token"])
        assert row["nats_per_token"] < best, domain


def test_bits_a_byte_follow_from_nats_a_token(figures):
    for row in figures["loss"].values():
        bits = row["nats_per_token"] / math.log(2) / row["bytes_per_token"]
        assert row["bits_per_byte"] == pytest.approx(bits, rel=1e-3)


def test_experts_prefer_domains_beyond_every_control(figures):
    for layer in figures["routing_by_layer"]:
        trained, untrained = layer["domain_information"], layer["domain_information_untrained"]
        assert trained["bits"] > 2 * untrained["bits"]
        assert trained["bits"] > 5 * trained["sequence_shuffled_bits"]
        assert trained["bits"] > trained["same_token_shuffled_bits"]
        assert trained["bits"] > 50 * trained["token_shuffled_bits"]


def test_no_expert_is_dead(figures):
    assert all(layer["load"]["dead_experts"] == 0 for layer in figures["routing_by_layer"])


def test_fewer_experts_and_tight_capacity_cost_perplexity(figures):
    top_k, capacity = figures["top_k"], figures["capacity"]
    assert top_k["1"]["perplexity"] > 1.05 * top_k["2"]["perplexity"]
    for kind in ("one_domain_batches", "mixed_batches"):
        free, tight = (capacity[name][kind]["perplexity"] for name in ("none", "hard:1.0"))
        assert tight > 1.02 * free


def test_a_cache_gains_from_the_order_of_the_text(figures):
    for layer in figures["routing_by_layer"]:
        ratio = layer["lru_4_hit_ratio"]
        assert ratio["text_order"] > ratio["shuffled"]


def test_the_tables_of_the_card_are_those_of_the_evaluation():
    card = (DATA / "README.md").read_text(encoding="utf-8")
    spec = spec_from_file_location("card", DATA.parent / "tools" / "sample_model" / "card.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.renew(card) == card


def test_the_card_tells_how_long_it_was_trained(figures):
    card = (DATA / "README.md").read_text(encoding="utf-8")
    assert f"{figures['training']['steps']:,} steps" in card
