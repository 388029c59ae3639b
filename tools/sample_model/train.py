"""Train the sample model; the schedule counts steps, so that a run repeats.

Every step takes two sequences of each of the eight domains, since balancing over single-domain
batches would undo specialisation. The batch of a step depends on the seed and the step alone, so
an interrupted run continues with ``--resume`` as if nothing had happened.
"""

import argparse
import math
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from model import Config, LanguageModel, balance_loss
from text import SEQUENCE, domains, load_tokens
from torch import Tensor

SEED = 1
SEQUENCES_A_DOMAIN = 2
PEAK_RATE, FINAL_SHARE, WARM_UP = 3e-3, 0.05, 100
WEIGHT_DECAY, CLIP, BETAS = 0.1, 1.0, (0.9, 0.95)
REPORT_EVERY, SAVE_EVERY = 50, 500
KEEP = (0, 1000)


def learning_rate(step: int, steps: int) -> float:
    """Return the rate of a step: linear warm-up, then a cosine down to 5 percent."""
    cosine = 0.5 * (1 + math.cos(math.pi * step / steps))
    return PEAK_RATE * min(1.0, (step + 1) / WARM_UP) * (FINAL_SHARE + (1 - FINAL_SHARE) * cosine)


def draw_batch(tokens: list[np.ndarray], step: int) -> tuple[Tensor, Tensor]:
    """Return inputs and targets ``[16, 256]`` of a step."""
    rng = np.random.default_rng([SEED, step])
    rows = [
        domain[start : start + SEQUENCE + 1]
        for domain in tokens
        for start in rng.integers(0, len(domain) - SEQUENCE - 1, SEQUENCES_A_DOMAIN)
    ]
    batch = torch.from_numpy(np.stack(rows).astype(np.int64))
    return batch[:, :-1], batch[:, 1:]


def make_optimizer(model: LanguageModel) -> torch.optim.AdamW:
    """Return AdamW with weight decay on the matrices but not on embeddings and gains."""
    decayed, plain = [], []
    for name, parameter in model.named_parameters():
        matrix = parameter.dim() >= 2 and "embed" not in name
        (decayed if matrix else plain).append(parameter)
    groups = [{"params": decayed, "weight_decay": WEIGHT_DECAY}, {"params": plain}]
    return torch.optim.AdamW(groups, lr=PEAK_RATE, betas=BETAS, weight_decay=0.0, fused=True)


def train_step(model, optimizer, inputs: Tensor, targets: Tensor, rate: float):
    """Take one step; return the cross-entropy and the load ``[L, E]`` of the batch."""
    for group in optimizer.param_groups:
        group["lr"] = rate
    logits, routings = model(inputs)
    loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
    balance = torch.stack([balance_loss(routing) for routing in routings]).mean()
    (loss + model.config.router_aux_loss_coef * balance).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    experts = model.config.num_local_experts
    load = [torch.bincount(r.topk_ids.flatten(), minlength=experts) for r in routings]
    return loss.item(), torch.stack(load)


def save(path: Path, model, optimizer, step: int, seconds: float) -> None:
    """Save a checkpoint from which training can go on."""
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "step": step,
        "seconds": seconds,
        "threads": torch.get_num_threads(),
        "torch": str(torch.__version__),
    }
    temporary = path.with_suffix(".part")
    torch.save(state, temporary)
    temporary.rename(path)


def report(step: int, losses: list[float], load: Tensor, seconds: float, rate: float) -> None:
    """Print one line about the last steps."""
    busiest = (load.amax(dim=1) / load.float().mean(dim=1)).tolist()
    print(
        f"step {step} loss {np.mean(losses):.3f} busiest/mean "
        f"{' '.join(f'{value:.2f}' for value in busiest)} lr {rate:.1e} {seconds:.0f} s",
        flush=True,
    )


def train(work: Path, steps: int, until: int, resume: bool) -> None:
    """Run the steps, reporting and saving as we go."""
    folder = work / "checkpoints"
    folder.mkdir(exist_ok=True)
    tokens = [load_tokens(work, domain, "train") for domain in domains(work)]
    torch.manual_seed(SEED)
    model = LanguageModel(Config())
    optimizer = make_optimizer(model)
    first, before = 0, 0.0
    if resume:
        state = torch.load(folder / "latest.pt")
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first, before = state["step"], state["seconds"]
    start, losses, load = time.monotonic() - before, [], torch.zeros(1)
    for step in range(first, until):
        if step in KEEP:
            save(folder / f"step-{step}.pt", model, optimizer, step, time.monotonic() - start)
        rate = learning_rate(step, steps)
        loss, counts = train_step(model, optimizer, *draw_batch(tokens, step), rate)
        losses.append(loss)
        load = load + counts
        done, seconds = step + 1, time.monotonic() - start
        if done % REPORT_EVERY == 0:
            report(done, losses, load, seconds, rate)
            losses, load = [], torch.zeros(1)
        if done % SAVE_EVERY == 0:
            save(folder / "latest.pt", model, optimizer, done, seconds)
    save(folder / "final.pt", model, optimizer, until, time.monotonic() - start)
    print(f"done: {until} steps, {time.monotonic() - start:.0f} s", flush=True)


def main() -> None:
    """Parse the arguments and train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=Path("build/sample-model"))
    parser.add_argument("--steps", type=int, default=6500, help="length of the schedule")
    parser.add_argument("--until", type=int, help="stop early, to try things out")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--resume", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # nothing here reads such memory
    train(options.work, options.steps, options.until or options.steps, options.resume)


if __name__ == "__main__":
    main()
