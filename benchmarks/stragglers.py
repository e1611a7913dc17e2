"""Times stragglers at the size of Llama 3 405B: 16 stages, 128 replicas, 128 micro-batches, each node at its own speed.

`python benchmarks/stragglers.py`. Limits count as in run.py: with the noise of this machine, longer where it is slow.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from run import LOOP, allowed, best_of, timed

from simcluster.analysis.stragglers import NodeSpeeds, simulate_stragglers
from simcluster.engine.compiled import kernel_for
from simcluster.engine.maxplus import solve
from simcluster.engine.paced import plain_step
from simcluster.program.step import StepShape, step_program

PP, DP, MICRO_BATCHES, SAMPLES = 16, 128, 128, 1000


def pipeline(chunks):
    """A step of computing and messages, stages alike, with its last one longer by the head."""
    none = ((0,) * chunks,) * PP
    program = step_program(StepShape("1f1b", PP, MICRO_BATCHES, chunks, None, none, none, True, False, False))
    durations, lags = np.zeros(program.duration_rows), np.zeros(program.lag_rows)
    durations[: program.bucket_base] = 0.02
    durations[program.chunk_row(0, program.parts - 1, 0) : program.chunk_row(0, program.parts - 1, 0) + 3] = 0.025
    lags[: program.message_lag(1, program.parts - 1) + 1] = 1e-4
    return plain_step(program, durations, lags)


def places():
    """One node of eight GPUs, which exchange inside a layer, for each stage of each replica."""
    return (np.arange(DP)[:, None] * PP + np.arange(PP))[:, :, None]


def measured(chunks):
    """Seconds of drawing and solving all samples, and what one column costs by going level by level."""
    step, where = pipeline(chunks), places()
    speeds = NodeSpeeds(DP * PP, node_sigma=0.01, jitter_sigma=0.01)
    seconds = best_of(lambda: simulate_stragglers(step, where, speeds, SAMPLES))
    found = simulate_stragglers(step, where, speeds, SAMPLES)
    columns = SAMPLES * DP
    one = np.repeat(step.durations[:, None], 64, axis=1), np.repeat(step.lags[:, None], 64, axis=1)
    plain = best_of(lambda: solve(step.graph, *one), 1) / 64 * columns
    rate = len(step.graph) * columns / seconds / 1e6
    slower = found.slow_down - 1
    return seconds, f"{rate:,.0f} M tasks/s, {plain / seconds:.1f} times level by level; steps {slower:+.1%}"


def main():
    """Prints the table; 1 if a limit is broken."""
    loop, broken = timed(("-c", LOOP)), 0
    compiled = kernel_for(1e12) is not None
    print("compiled by numba" if compiled else "numpy" + ("" if find_spec("numba") else ", numba is not installed"))
    row = "{:44} {:>9} {:>8} {:>8}  {}".format
    print(row("best of 3, one core", "time", "limit", "/ loop", ""))
    for chunks in (1, 2, 8):
        limit = {1: 1.25, 2: 2.5, 8: 10.0}[chunks] * (0.24 if compiled else 1.0)
        seconds, remark = measured(chunks)
        late = seconds > allowed(limit, loop)
        broken += late
        name = f"1,000 steps of 128 replicas, {chunks} chunks a stage"
        print(row(name, f"{seconds:.3f} s", f"{limit:g} s", f"{seconds / loop[0]:.2f}", remark + " BROKEN" * late))
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
