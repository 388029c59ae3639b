"""Random kernels of nested loops and branches, and how a warp runs them, worked out in Python.

Lanes meet again at the end of each branch and loop. Each access stands on a line of its own: an
atomic addition, which no compiler moves, merges or drops.
"""

import random
from dataclasses import dataclass, field

MASK = 0xFFFFFFFF
HEAD = """\
__device__ unsigned draw(unsigned lane, unsigned turn, unsigned place) {
  unsigned x = lane * 2654435761u + turn * 40503u + place * 97u;
  x ^= x >> 13;
  return x * 1274126177u >> 16;
}
"""


def draw(lane, turn, place):
    x = (lane * 2654435761 + turn * 40503 + place * 97) & MASK
    x ^= x >> 13
    return (x * 1274126177 & MASK) >> 16


@dataclass
class Program:
    """Statements are tuples: what, place, bound, body, other body."""

    seed: int
    body: list
    num_accesses: int
    lines: dict = field(default_factory=dict)  # access -> its line in the source


def make(seed):
    rng, places, accesses = random.Random(seed), iter(range(1, 10**6, 2)), []

    def body(depth):
        return [statement(depth) for _ in range(rng.randint(1, 3))]

    def statement(depth):
        place, kind = next(places), rng.random()
        if depth == 3 or kind < 0.4:
            accesses.append(place)
            return "access", len(accesses) - 1, 0, [], []
        if kind < 0.7:
            return "loop", place, rng.choice([2, 3, 5, 9]), body(depth + 1), []
        if kind < 0.8:
            return "search", place, rng.choice([4, 7]), body(depth + 1), []
        other = body(depth + 1) if rng.random() < 0.5 else []
        return "branch", place, rng.choice([2, 3]), body(depth + 1), other

    return Program(seed, body(0), len(accesses))


# ---- as CUDA ----------------------------------------------------------------------------------


def source(programs):
    lines = [*HEAD.splitlines(), 'extern "C" {']
    for program in programs:
        lines += [
            f"__global__ void k{program.seed}(int *count) {{",
            "  unsigned lane = threadIdx.x;",
        ]
        _write(program, program.body, "0u", lines)
        lines.append("}")
    return "\n".join([*lines, "}", ""])


def _write(program, body, turn, lines):
    for what, place, bound, inner, other in body:
        i = f"i{place}"
        if what == "access":
            lines.append(f"atomicAdd(&count[{place}], 1);")
            program.lines[place] = len(lines)
            continue
        if what == "branch":
            lines.append(f"if (draw(lane, {turn}, {place}) % {bound}u == 0) {{")
            _write(program, inner, turn, lines)
            if other:
                lines.append("} else {")
                _write(program, other, turn, lines)
            lines.append("}")
            continue
        end = f"draw(lane, {turn}, {place}) % {bound}u" if what == "loop" else f"{bound}u"
        lines.append(f"for (unsigned {i} = 0; {i} < {end}; {i}++) {{")
        if what == "search":
            lines.append(f"if (draw(lane, {turn} + {i}, {place}) % 4u == 0) break;")
            lines.append(f"if (draw(lane, {turn} + {i}, {place + 1}) % 4u == 0) continue;")
        _write(program, inner, f"({turn} * 7u + {i})", lines)
        lines.append("}")


# ---- as a warp --------------------------------------------------------------------------------


def expected(program):
    """Requests and lanes of each access: {line: (requests, lanes)}, without those never reached."""
    counts = {}
    _run(program.body, dict.fromkeys(range(32), 0), counts)
    return {program.lines[access]: tuple(count) for access, count in counts.items()}


def _run(body, turns, counts):
    """turns : the lanes that take part, and the turn of the loops around that each is in."""
    for what, place, bound, inner, other in body:
        if not turns:
            return
        if what == "access":
            count = counts.setdefault(place, [0, 0])
            count[0] += 1
            count[1] += len(turns)
        elif what == "branch":
            taken = {k: t for k, t in turns.items() if draw(k, t, place) % bound == 0}
            _run(inner, taken, counts)
            _run(other, {k: t for k, t in turns.items() if k not in taken}, counts)
        else:
            _loop(what, place, bound, inner, turns, counts)


def _loop(what, place, bound, inner, turns, counts):
    inside = dict(turns)
    for i in range(bound):
        if what == "loop":
            inside = {k: t for k, t in inside.items() if i < draw(k, t, place) % bound}
            now = inside
        else:
            inside = {k: t for k, t in inside.items() if draw(k, t + i & MASK, place) % 4}
            now = {k: t for k, t in inside.items() if draw(k, t + i & MASK, place + 1) % 4}
        _run(inner, {k: t * 7 + i & MASK for k, t in now.items()}, counts)
