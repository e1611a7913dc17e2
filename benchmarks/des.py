"""Times the discrete-event engine, and prints how far it is from max-plus over the examples.

`python benchmarks/des.py`. Limits count as in run.py: with the noise of this machine, and longer where it is slow.
"""

import statistics
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from run import LOOP, ROOT, allowed, best_of, timed

from simcluster.engine.des import Change, simulate
from simcluster.engine.des_blocks import block_step
from simcluster.engine.des_step import solve_replicas_des, solve_step_des, step_wiring
from simcluster.engine.step_flows import Interference, link_number
from simcluster.errors import InputError
from simcluster.evaluation import evaluate
from simcluster.hardware.catalogue import Catalogue
from simcluster.program.step import StepShape, step_program
from simcluster.scenario import load, load_mapping

LARGE = {
    "name": "megatron-530b",
    "model": "megatron-530b",
    "cluster": {"node": "dgx-a100-80gb", "nodes": 280, "fabric": "ib-hdr-200"},
    "training": {
        "sequence_length": 2048,
        "global_batch": 2240,
        "micro_batch": 1,
        "parallelism": {"tp": 8, "pp": 35, "virtual_stages": 3, "sequence_parallel": True},
        "recompute": "selective",
        "software": {"family": "megatron-core", "date": "2024-06"},
    },
}
THOUSAND = {
    "name": "llama-3-70b-1024xh100",
    "model": "llama-3-70b",
    "cluster": {"node": "dgx-h100", "nodes": 128, "fabric": "ib-ndr-400"},
    "training": {
        "sequence_length": 8192,
        "global_batch": 512,
        "micro_batch": 1,
        "parallelism": {"tp": 8, "pp": 8, "virtual_stages": 5, "sequence_parallel": True},
        "sharding": {"strategy": "zero-1"},
        "recompute": "selective",
        "software": {"family": "megatron-core", "date": "2024-06"},
    },
}


def parts(evaluation):
    return evaluation.resolved.plan, evaluation.resolved.machine, evaluation.times


def replica_405b():
    """One replica of 126 layers on 16 stages with 8 chunks each, 128 micro-batches; stages and messages unequal."""
    counts = ((1,) * 8,) * 16
    program = step_program(StepShape("1f1b", 16, 128, 8, None, counts, counts, True, True, False))
    rng = np.random.default_rng(0)
    durations, lags = rng.uniform(0.01, 0.02, program.duration_rows), np.zeros(program.lag_rows)
    lags[: program.release_base] = 1e-4
    seconds = best_of(lambda: simulate(program.graph, durations, lags))
    run = simulate(program.graph, durations, lags)
    return seconds, f"{len(program.graph):,} tasks, {run.events / seconds / 1e3:.0f} k events/s"


def large_scenario(catalogue):
    """530 billion parameters, 35 stages, 3 virtual, 280 micro-batches: from the scenario to the waterfall."""

    def anew():
        step_program.cache_clear()
        return evaluate(load_mapping(LARGE), catalogue).waterfall

    seconds = best_of(anew)
    plan, machine, times = parts(evaluate(load_mapping(LARGE), catalogue))
    events = best_of(lambda: solve_step_des(plan, machine, times), 1)
    return seconds, f"max-plus, {len(times.program.graph):,} tasks; the same step event by event {events:.2f} s"


def thousand_gpus(catalogue):
    """16 replicas of 64 GPUs, every one of them apart; a stage's network halves in mid-step."""
    plan, machine, times = parts(evaluate(load_mapping(THOUSAND), catalogue))
    wiring = step_wiring(plan, machine, times)
    middle = 0.4 * float(times.total[0])
    change = [Change(middle, "link", link_number(0, "network", "out"), 0.5)]
    seconds = best_of(lambda: solve_replicas_des(plan, machine, times, wiring, plan.mesh.dp, change), 1)
    run = solve_replicas_des(plan, machine, times, wiring, plan.mesh.dp, change)
    return seconds, f"{len(run.ends):,} tasks, {run.events:,} events, step {run.total / times.total[0] - 1:+.2%}"


def differences(catalogue):
    """(example, static, shared, with interference, blocks with interference) against max-plus."""
    for path in sorted((ROOT / "examples").glob("*.yaml")):
        try:
            plan, machine, times = parts(evaluate(load(path), catalogue))
        except InputError:
            continue  # a study, whose layouts are chosen first
        shared, slowed = step_wiring(plan, machine, times), step_wiring(plan, machine, times, Interference())
        totals = (
            solve_step_des(plan, machine, times).total,
            solve_step_des(plan, machine, times, shared).total,
            block_step(plan, machine, times).run().total,
            solve_step_des(plan, machine, times, slowed).total,
            block_step(plan, machine, times, Interference()).run().total,
        )
        yield path.stem, [total / float(times.total[0]) - 1 for total in totals]


def main():
    """Prints both tables; 1 if a limit is broken."""
    loop, catalogue, broken = timed(("-c", LOOP)), Catalogue.load(), 0
    row = "{:44} {:>9} {:>8} {:>8}  {}".format
    print(row("best of 3", "time", "limit", "/ loop", ""))
    for name, limit, measured in (
        ("405B replica, 8 chunks a stage, events", 0.5, replica_405b()),
        ("530B, scenario to waterfall", 0.5, large_scenario(catalogue)),
        ("1,024 GPUs, contention on links, events", 3.0, thousand_gpus(catalogue)),
    ):
        seconds, remark = measured
        late = seconds > allowed(limit, loop)
        broken += late
        print(row(name, f"{seconds:.3f} s", f"{limit:g} s", f"{seconds / loop[0]:.2f}", remark + " BROKEN" * late))
    line = "{:36} {:>11} {:>11} {:>11} {:>13} {:>13}".format
    print(line("\nagainst max-plus", " alone", "shared", "in blocks", "interference", "in blocks"))
    found = list(differences(catalogue))
    for name, values in found:
        print(line(name, *(f"{value:+.4%}" for value in values)))
    medians = [statistics.median(abs(values[column]) for _, values in found) for column in range(5)]
    print(line("median of the absolute difference", *(f"{value:.4%}" for value in medians)))
    return int(broken > 0 or medians[1] > 0.01)


if __name__ == "__main__":
    sys.exit(main())
