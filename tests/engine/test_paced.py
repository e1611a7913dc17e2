"""Steps whose stages go at unlike paces: the hierarchy against one graph of all replicas, and what pace means."""

import numpy as np
import pytest

from simcluster.engine.maxplus import solve
from simcluster.engine.paced import paced_step, plain_step, step_times
from simcluster.program.step import StepShape, step_program
from simcluster.program.wiring import no_wiring, replicated


def figures(run, **parallelism):
    change = {
        "cluster": {"nodes": 4, "fabric": "ib-hdr-200"},
        "training": {"global_batch": 64, "parallelism": {"tp": 8, "pp": 2, "dp": None, **parallelism}},
    }
    evaluation = run(change)
    return evaluation.resolved.plan, evaluation.resolved.machine, evaluation.times


def test_equal_paces_scale_computing_only(run):
    plan, machine, times = figures(run)
    step = paced_step(plan, machine, times)
    assert step.healthy_s == float(times.total[0])
    found = step_times(step, np.array([1.0, 1.1, 1.2])[:, None, None] * np.ones((1, 2, 2)))
    assert found[0] == pytest.approx(step.healthy_s, rel=1e-12)
    assert 0 < found[2] - found[1] < 0.1 * step.healthy_s
    assert found[2] - found[1] == pytest.approx(found[1] - found[0], rel=0.02)


def test_replicas_meet_as_if_all_were_one_graph():
    """Three replicas of a small step with buckets, optimizer and gathers behind it, every task solved."""
    ones = ((1, 1),) * 4
    program = step_program(StepShape("1f1b", 4, 8, 2, None, ones, ones, True, False, True))
    random = np.random.default_rng(0)
    durations = random.uniform(0.5, 1.5, program.duration_rows)
    step = plain_step(program, durations)
    step.growth[program.optimizer_base : program.wire_base] = durations[program.optimizer_base : program.wire_base]
    paces = random.uniform(0.9, 1.4, (3, 4))
    rows = program.graph.duration
    shared = (rows >= program.bucket_base) & (rows < program.optimizer_base)
    whole, _, place = replicated(program.graph, no_wiring(program.graph), shared, 3)
    seconds = np.zeros(len(whole))
    slow = step.durations + step.growth * (paces[:, step.stage_of_row] - 1.0)
    for replica in range(3):
        seconds[place[replica]] = slow[replica, rows]
    own = type(whole)(np.arange(len(whole)), whole.stream, whole.pointer, whole.predecessor, whole.lag)
    ends = solve(own, seconds[:, None], np.zeros((program.lag_rows, 1)))
    assert step_times(step, paces[None])[0] == pytest.approx(float(ends.max()), rel=1e-12)


@pytest.mark.parametrize("count", [3, 700])
def test_blocks_and_duplicates_change_nothing(run, count):
    step = paced_step(*figures(run))
    paces = np.random.default_rng(1).choice([1.0, 1.05, 1.3], (count, 2, 2), p=[0.6, 0.2, 0.2])
    paces[::2] += np.random.default_rng(2).uniform(0, 0.1, paces[::2].shape)
    whole = step_times(step, paces)
    assert (step_times(step, paces, block=97) == whole).all()
    alone = [float(step_times(step, paces[sample : sample + 1])[0]) for sample in range(0, count, 50)]
    assert (whole[::50] == alone).all()


def test_slower_never_helps(run):
    step = paced_step(*figures(run, virtual_stages=2))
    random = np.random.default_rng(3)
    paces = random.uniform(1.0, 1.3, (50, 2, 2))
    slower = paces + random.uniform(0.0, 0.1, paces.shape)
    assert (step_times(step, slower) >= step_times(step, paces)).all()
