"""Times what a user waits for against limits, and what a search repeats. `make bench`.

Each command is run three times in a process of its own and the best counts. A fixed loop of Python and numpy is timed
in the same way, so that figures of two machines can be compared by their ratio to it. A limit counts as broken if the
best run is above it by more than the noise of this machine in this run (the spread of the loop's own runs, at least
10 %, at most 50 %), and even after allowing for a slow machine: the limit grows with the loop where it takes longer
than REFERENCE_S.
"""

import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
RUNS = 3
REFERENCE_S = 0.25  # the loop on a server core of 2023
LEAST_NOISE, MOST_NOISE = 0.1, 0.5
DECISION = ("--model", "llama-3-70b", "--tokens", "2T", "32xdgx-b200:own", "32xaws-p6-b200:3y", "64xhgx-h100:1y")
STUDY = "examples/llama-3-70b-256xb200.yaml"
COMPARED = ("examples/llama-65b-512xa100.yaml", "examples/llama-65b-512xa100-roce.yaml")
LOOP = """
import numpy as np
total = 0
for i in range(600_000):
    total += i * i % 7
values = np.arange(200_000.0)
for _ in range(60):
    values = np.maximum(np.sqrt(values + 1.0), values * 0.5)
"""


@dataclass(frozen=True)
class Case:
    """A command and the seconds that it may take."""

    name: str
    command: tuple
    limit_s: float


CASES = (
    Case("simcluster --help", ("-m", "simcluster", "--help"), 0.2),
    Case("compare two examples", ("-m", "simcluster", "compare", *COMPARED), 1.5),
    Case("compare three ways to train 70B, layouts chosen", ("-m", "simcluster", "compare", *DECISION), 3.0),
    Case("compare a study of four, layouts chosen", ("-m", "simcluster", "compare", STUDY), 3.0),
    Case("simulate 16,384 GPUs", ("-m", "simcluster", "simulate", "examples/llama-3-405b-16384xh100.yaml"), 1.0),
)


def timed(command):
    """Wall times of RUNS runs of a command of this Python, sorted; stops if one fails."""
    times = []
    for _ in range(RUNS):
        started = time.perf_counter()
        done = subprocess.run([sys.executable, *command], check=False, cwd=ROOT, capture_output=True)
        times.append(time.perf_counter() - started)
        if done.returncode:
            sys.exit(f"{' '.join(command)} failed: {done.stderr.decode()}")
    return sorted(times)


def allowed(limit_s, loop):
    """Seconds above which a limit counts as broken, given the sorted times of the loop.

    >>> allowed(1.0, [0.25, 0.25, 0.3]), allowed(1.0, [0.5, 0.5, 0.5])
    (1.2, 2.2)
    """
    slow = max(1.0, loop[0] / REFERENCE_S)
    noise = min(MOST_NOISE, max(LEAST_NOISE, loop[-1] / loop[0] - 1.0))
    return round(limit_s * slow * (1.0 + noise), 6)


def large_step():
    """Program and tables of a step of 530 billion parameters: 35 stages, 3 virtual, 280 micro-batches."""
    from simcluster.program.step import StepShape, step_program

    chunks = ((1, 1, 1),) * 35
    shape = StepShape("1f1b", 35, 280, 3, None, chunks, chunks, True, True, False)
    program = step_program(shape)
    rng = np.random.default_rng(0)
    return program, rng.uniform(0.01, 0.02, (program.duration_rows, 4)), np.zeros((program.lag_rows, 4))


def best_of(function, runs=RUNS):
    """Shortest of several calls, after one that fills the caches."""
    function()
    times = []
    for _ in range(runs):
        started = time.perf_counter()
        function()
        times.append(time.perf_counter() - started)
    return min(times)


def in_process():
    """(name, seconds, remark) of what a search repeats in one process."""
    from simcluster.engine.maxplus import solve
    from simcluster.evaluation import evaluate
    from simcluster.hardware.catalogue import Catalogue
    from simcluster.scenario import load
    from simcluster.shapes import GroupShape
    from simcluster.timing.collective_profile import load_collective_profile
    from simcluster.timing.collectives import collective_time

    program, durations, lags = large_step()
    solved = best_of(lambda: solve(program.graph, durations, lags))
    tasks = len(program.graph)
    loaded, catalogue = load(ROOT / COMPARED[0]), Catalogue.load()
    evaluated = best_of(lambda: evaluate(loaded, catalogue).step, 20)
    network, group = evaluate(loaded, catalogue).resolved.machine.network, GroupShape(64, 8)
    profile, sizes = load_collective_profile(), np.geomspace(1e3, 1e9, 100)
    one = best_of(lambda: collective_time(profile, network, "all_reduce", 1e6, group), 50)
    many = best_of(lambda: collective_time(profile, network, "all_reduce", sizes, group), 50)
    return (
        (
            "solve 530B, pp 35 v 3 m 280",
            solved,
            f"{tasks:,} tasks, 4 columns, {4 * tasks / solved / 1e6:.1f} M tasks/s",
        ),
        ("evaluate a 512-GPU step", evaluated, f"{1 / evaluated:.0f} evaluations/s"),
        ("one all-reduce", one, f"{one * 1e6:.0f} us; 100 sizes at once take {many / one:.1f} times as long"),
    )


def main():
    """Prints the table; 1 if a limit is broken."""
    loop = timed(("-c", LOOP))
    row = "{:30} {:>9} {:>8} {:>8}  {}".format
    print(row("best of 3", "time", "limit", "/ loop", ""))
    print(row("reference loop", f"{loop[0]:.3f} s", "", "1.00", f"spread {loop[-1] / loop[0] - 1:.0%}"))
    broken = 0
    for case in CASES:
        best = timed(case.command)[0]
        verdict = "" if best <= case.limit_s else "over, within noise and machine"
        if best > allowed(case.limit_s, loop):
            verdict, broken = "BROKEN", broken + 1
        print(row(case.name, f"{best:.3f} s", f"{case.limit_s:g} s", f"{best / loop[0]:.2f}", verdict))
    for name, seconds, remark in in_process():
        print(row(name, f"{seconds * 1e3:.1f} ms", "", f"{seconds / loop[0]:.3f}", remark))
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
