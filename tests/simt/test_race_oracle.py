"""Random small programs on shared and global memory: a race is reported where there is one.

One kernel runs a table of operations, a row a thread. Which accesses come before which is worked
out here from the barriers alone, pair by pair.
"""

import itertools

import numpy as np
import pytest

from colibri_lab import simt
from colibri_lab.simt.compiler import compile_source
from colibri_lab.simt.nvcc_arguments import parse

NOTHING, READ, WRITE, ATOMIC, WARP, BLOCK = range(6)
THREADS, WORDS = 64, 6
SOURCE = """
extern "C" __global__ void table(const int *what, const int *where, int *words, int *out,
                                 int steps, int is_shared) {
  __shared__ int near[6];
  int *at = is_shared ? near : words + 6 * blockIdx.x;
  int thread = blockIdx.x * blockDim.x + threadIdx.x, sum = 0;
  if (threadIdx.x < 6) at[threadIdx.x] = 0;
  __syncthreads();
  for (int s = 0; s < steps; s++) {
    int index = where[thread * steps + s];
    switch (what[thread * steps + s]) {
      case 1: sum += at[index]; break;
      case 2: at[index] = thread + 1000 * s; break;
      case 3: atomicAdd(&at[index], 1); break;
      case 4: __syncwarp(); break;
      case 5: __syncthreads(); break;
    }
  }
  __syncthreads();
  out[thread] = sum;
}
"""


def draw(rng, steps=6, busy=0.022):
    """Operations of each thread, [THREADS, steps], and their words; barriers stand in columns."""
    what = rng.choice([NOTHING, READ, WRITE, ATOMIC], (THREADS, steps), p=_shares(busy))
    for column in range(1, steps):
        kind = rng.random()
        if kind < 0.25:
            what[:, column] = BLOCK
        elif kind < 0.5:
            warp = rng.integers(2) * 32
            what[warp : warp + 32, column] = WARP
    return what.astype(np.int32), rng.integers(0, WORDS, (THREADS, steps)).astype(np.int32)


def _shares(busy):
    return [1 - busy, 0.4 * busy, 0.4 * busy, 0.2 * busy]


def has_race(what, where):
    accesses = [
        (thread, step, what[thread, step], where[thread, step])
        for thread in range(THREADS)
        for step in range(what.shape[1])
        if READ <= what[thread, step] <= ATOMIC
    ]
    return any(_races(what, a, b) for a, b in itertools.combinations(accesses, 2))


def _races(what, a, b):
    (thread, step, kind, word), (thread2, step2, kind2, word2) = a, b
    if thread == thread2 or word != word2 or {kind, kind2} in ({READ}, {ATOMIC}):
        return False
    first, last = sorted((step, step2))
    between = what[thread, first:last], what[thread2, first:last]
    if BLOCK in between[0]:
        return False
    return thread // 32 != thread2 // 32 or WARP not in between[0]


@pytest.fixture
def run(device, tmp_path):
    path = tmp_path / "table.cu"
    path.write_text(SOURCE)

    def launch(what, where, is_shared):
        blocks = len(what) // THREADS
        with simt.observe(counters=False, memory=False) as seen:
            module = device.load(compile_source(parse(["--cubin", str(path)]), str(path)))
            args = [device.put(what), device.put(where), device.put(np.zeros(6 * blocks, np.int32))]
            args += [device.empty(4 * len(what)), np.int32(what.shape[1]), np.int32(is_shared)]
            device.launch(module, "table", *args, grid=blocks, block=THREADS)
        return seen

    return launch


@pytest.mark.parametrize("is_shared", [True, False])
def test_reports_a_race_where_there_is_one(run, is_shared):
    rng = np.random.default_rng(11)
    races = 0
    for _ in range(150):
        what, where = draw(rng)
        expected = has_race(what, where)
        seen = run(what, where, is_shared)
        assert bool(seen.errors) == expected, (what.tolist(), where.tolist())
        races += expected
    assert 30 < races < 120, "both kinds were drawn"


def test_blocks_do_not_disturb_one_another(run):
    """Each has words of its own: none of two correct blocks races, nor with an incorrect one."""
    rng = np.random.default_rng(12)
    clean = [one for one in (draw(rng) for _ in range(60)) if not has_race(*one)]
    what, where = (np.concatenate(parts) for parts in zip(*clean, strict=True))
    assert len(clean) > 10
    for is_shared in (True, False):
        assert not run(what, where, is_shared).errors
