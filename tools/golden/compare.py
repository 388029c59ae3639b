"""Print how far the reference is from transformers, configuration by configuration.

    python -m tools.golden.compare

Needs no PyTorch: it reads the committed files. Run it from the root of the repository in the
project's environment.
"""

from __future__ import annotations

from colibri_lab.models import load_config, load_model
from tests.golden.reading import (
    HERE,
    SAMPLE,
    Differences,
    Golden,
    changed_files,
    compare,
    golden_file,
    read_golden,
)

HEADER = (
    "| family | configuration | cases | tokens | worst logit difference | largest logit | "
    "topk_ids that differ | worst topk_weights difference |"
)


def worst(golden: Golden) -> Differences:
    """Over all cases, fed both as transformers was and in one piece."""
    model = load_model(golden.checkpoint)
    found = [
        compare(model, case, steps)
        for case in golden.cases.values()
        for steps in {case.steps, (case.token_ids.shape[1],)}
    ]
    return Differences(
        logits=max(each.logits for each in found),
        moe_inputs=max(each.moe_inputs for each in found),
        topk_weights=max(each.topk_weights for each in found),
        topk_ids=sum(each.topk_ids for each in found),
    )


def row(name: str) -> str:
    golden = read_golden(name)
    changed = changed_files(golden)
    if changed:
        raise SystemExit(f"{name} was made from other files than there are now: {changed}")
    found, family = worst(golden), load_config(golden.checkpoint).model_type
    tokens = sum(case.token_ids.size for case in golden.cases.values())
    largest = golden.metadata["largest_logit"]
    return (
        f"| {family} | {name} | {len(golden.cases)} | {tokens} | {found.logits:.1e} | "
        f"{largest:.1f} | {found.topk_ids} | {found.topk_weights:.1e} |"
    )


def main() -> None:
    names = sorted(path.parent.name for path in HERE.glob("*/golden.npz"))
    names += [SAMPLE] if golden_file(SAMPLE).exists() else []
    print(HEADER, "|---|---|--:|--:|--:|--:|--:|--:|", sep="\n")
    for name in names:
        print(row(name))


if __name__ == "__main__":
    main()
