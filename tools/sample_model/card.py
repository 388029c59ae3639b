"""Renew the tables of figures and checksums in ``data/README.md``."""

import hashlib
import json
from pathlib import Path

DATA = Path(__file__).resolve().parents[2] / "data"
CARD = DATA / "README.md"
FOLDERS = ("tiny-moe", "heldout", "licenses")


def table(head: str, rows: list[list[object]]) -> str:
    """Return a Markdown table; ``head`` is its first line, without the outer bars."""
    ruler = "|".join("---" for _ in head.split("|"))
    return "\n".join(
        [f"| {head} |", f"|{ruler}|", *(f"| {' | '.join(map(str, r))} |" for r in rows)]
    )


def checksums() -> str:
    """Return size and SHA-256 of every file of the sample model."""
    rows = []
    for path in sorted(path for name in FOLDERS for path in (DATA / name).iterdir()):
        content = path.read_bytes()
        name, digest = path.relative_to(DATA).as_posix(), hashlib.sha256(content).hexdigest()
        rows.append([f"`{name}`", len(content), f"`{digest}`"])
    return table("file | bytes | sha256", rows)


def losses(figures: dict) -> str:
    """Return the held-out loss of every domain beside the trigrams'."""
    rows = [
        [
            domain,
            f"{row['nats_per_token']:.3f}",
            f"{row['bits_per_byte']:.3f}",
            f"{row['trigram']['all_domains_nats_per_token']:.3f}",
            f"{row['trigram']['own_domain_nats_per_token']:.3f}",
            row["tokens"],
        ]
        for domain, row in figures["loss"].items()
    ]
    mean = figures["loss_mean"]
    keys = ("trigram_all_domains", "trigram_own_domain")
    rows.append(
        [
            "**mean**",
            f"{mean['mean_nats_per_token']:.3f}",
            "",
            *(f"{mean[k]:.3f}" for k in keys),
            "",
        ]
    )
    head = "domain | model, nats/token | model, bits/byte | trigram, all domains | "
    return table(head + "trigram, this domain alone | tokens", rows)


def variants(figures: dict) -> str:
    """Return what fewer or more experts and tight capacity cost."""
    rows = [
        [f"top-{top_k}", f"{row['perplexity']:.2f}", "", "", ""]
        for top_k, row in figures["top_k"].items()
    ]
    for policy, kinds in figures["capacity"].items():
        cells = [
            f"{kinds[kind][name]:{form}}"
            for kind in ("mixed_batches", "one_domain_batches")
            for name, form in (("perplexity", ".2f"), ("dropped_fraction", ".3f"))
        ]
        rows.append([f"top-2, capacity `{policy}`", *cells])
    head = "variant | perplexity (mixed batch) | dropped | perplexity (one-domain batch) | dropped"
    return table(head, rows)


def information(figures: dict) -> str:
    """Return the information of domain and expert by layer, beside its controls."""
    controls = ("token_shuffled_bits", "sequence_shuffled_bits", "same_token_shuffled_bits")
    rows = []
    for layer, row in enumerate(figures["routing_by_layer"]):
        trained, untrained = row["domain_information"], row["domain_information_untrained"]
        cells = [trained["bits"], *(trained[name] for name in controls), untrained["bits"]]
        rows.append([layer, *(f"{value:.4f}" for value in cells)])
    head = "layer | trained, bits | tokens shuffled | sequences shuffled | "
    return table(head + "shuffled among equal tokens | untrained model", rows)


def locality(figures: dict) -> str:
    """Return load and LRU hit ratio by layer."""
    names = ("text_order", "shuffled_within_domains", "shuffled")
    rows = [
        [
            layer,
            f"{row['load']['busiest_over_mean']:.2f}",
            f"{row['load']['idlest_over_mean']:.2f}",
            row["load"]["dead_experts"],
            *(f"{row['lru_4_hit_ratio'][name]:.3f}" for name in names),
        ]
        for layer, row in enumerate(figures["routing_by_layer"])
    ]
    head = "layer | busiest/mean | idlest/mean | dead | LRU hits, text order | "
    return table(head + "shuffled within domains | shuffled", rows)


def sections() -> dict[str, str]:
    """Return all tables under the names of their marks in the card."""
    figures = json.loads((DATA / "tiny-moe" / "evaluation.json").read_text())
    makers = (losses, variants, information, locality)
    return {**{make.__name__: make(figures) for make in makers}, "checksums": checksums()}


def renew(card: str) -> str:
    """Return the card with fresh tables between the marks."""
    for name, content in sections().items():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        head, rest = card.split(begin)
        card = f"{head}{begin}\n{content}\n{end}{rest.split(end)[1]}"
    return card


if __name__ == "__main__":
    CARD.write_text(renew(CARD.read_text(encoding="utf-8")), encoding="utf-8")
