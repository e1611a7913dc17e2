"""Both engines on every schedule: random durations, imbalances and lags, and whole scenarios."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.engine.des import simulate
from simcluster.engine.des_blocks import block_step
from simcluster.engine.des_step import solve_step_des, step_tables, step_wiring, timed_by_events
from simcluster.engine.maxplus import solve
from simcluster.engine.period import step_time
from simcluster.engine.step_flows import Interference
from simcluster.program.step import StepShape, step_program

SCHEDULES = ("none", "gpipe", "1f1b", "interleaved", "breadth-first", "zb-h1", "zb-h2", "dualpipe")
OVERLAPPED = ("1f1b-overlapped", "interleaved-overlapped")


@pytest.mark.parametrize("schedule", [*SCHEDULES, *OVERLAPPED])
@settings(deadline=None, max_examples=12)
@given(data=st.data())
def test_random_programs_agree(schedule, data):
    pp = {"none": 1, "dualpipe": 2 * data.draw(st.integers(1, 3))}.get(schedule, data.draw(st.integers(2, 5)))
    m = data.draw(st.integers(1, 6)) * (pp if schedule.startswith("interleaved") else 1)
    m = 2 * pp + 2 * (m % 3) if schedule == "dualpipe" else m
    v = {"interleaved": 2, "interleaved-overlapped": 2, "breadth-first": 3, "dualpipe": 2}.get(schedule, 1)
    buckets = tuple(tuple(data.draw(st.integers(0, 2)) for _ in range(v)) for _ in range(pp))
    name = schedule.replace("interleaved", "1f1b")
    flags = [data.draw(st.booleans()) for _ in range(3)]
    program = step_program(StepShape(name, pp, m, v, None, buckets, buckets, *flags))
    draws = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    durations = draws.uniform(0.5, 2.0, (program.duration_rows, 1))
    if program.shape.paired:
        durations[program.beside_row] = 0.0
    lags = draws.uniform(0.0, 0.3, (program.lag_rows, 1))
    shortest = durations[: program.bucket_base].min(initial=2.0, where=durations[: program.bucket_base] > 0)
    lags[program.release_base :] = -draws.uniform(0, 1, (program.lag_rows - program.release_base, 1)) * shortest
    found = simulate(program.graph, durations[:, 0], lags[:, 0]).ends
    np.testing.assert_allclose(found, solve(program.graph, durations, lags)[:, 0], rtol=1e-12)


def _job(schedule):
    if schedule == "breadth-first":
        return {"parallelism": {"tp": 4, "pp": 2, "virtual_stages": 4, "order": "breadth-first"}}
    if schedule == "interleaved":
        return {"parallelism": {"tp": 4, "pp": 2, "virtual_stages": 4}}
    pp, batch = (1, 64) if schedule == "none" else (4, 128)
    return {"parallelism": {"tp": 2, "pp": pp, "schedule": schedule}, "global_batch": batch}


@pytest.fixture(scope="module", params=SCHEDULES)
def evaluation(request, run):
    return run({"training": _job(request.param)})


def test_nothing_shared_is_max_plus(evaluation):
    plan, machine, times = evaluation.resolved.plan, evaluation.resolved.machine, evaluation.times
    np.testing.assert_allclose(solve_step_des(plan, machine, times).ends, times.ends[:, 0], rtol=1e-12)


def test_sharing_and_interference_never_help(evaluation):
    plan, machine, times = evaluation.resolved.plan, evaluation.resolved.machine, evaluation.times
    shared = timed_by_events(plan, machine, times).total
    assert times.total[0] * (1 - 1e-12) <= shared[0] <= times.total[0] * 1.05
    assert shared[1:].tolist() == times.total[1:].tolist()
    slowed = solve_step_des(plan, machine, times, step_wiring(plan, machine, times, Interference())).ends.max()
    assert slowed >= solve_step_des(plan, machine, times, step_wiring(plan, machine, times)).ends.max() * (1 - 1e-12)


def test_the_waterfall_is_the_step_and_every_part_has_its_sign(evaluation):
    fall = evaluation.waterfall
    assert sum(fall.seconds) == pytest.approx(evaluation.step.time_s, rel=1e-9)
    assert min(fall.seconds) >= -1e-9 * evaluation.step.time_s


@pytest.mark.parametrize("schedule", ["zb-h1", "zb-h2", "dualpipe"])
def test_blocks_of_a_split_backward_are_its_chunks(run, schedule):
    """Of an overlapped pair too, which is a block of its own."""
    evaluation = run({"training": _job(schedule)})
    times = evaluation.times
    step = block_step(evaluation.resolved.plan, evaluation.resolved.machine, times)
    ends = simulate(step.program.graph, step.program.durations, step.program.lags).ends
    chunks = np.arange(times.program.chunk_tasks)
    np.testing.assert_allclose(ends[step.program.last[chunks]], times.ends[chunks, 0], rtol=1e-9)
    last = times.ends[:, 0].max()
    assert ends.max() == pytest.approx(last, rel=1e-9)
    assert last * (1 - 1e-9) <= step.run().total <= last * 1.05


def test_a_rolling_step_is_as_long_event_by_event(run):
    """Stages of ZB-H2 that wait for their parameters on the way: without others on the links both engines agree."""
    evaluation = run({"training": {**_job("zb-h2"), "sharding": {"strategy": "zero-1"}}})
    plan, machine, times = evaluation.resolved.plan, evaluation.resolved.machine, evaluation.times
    assert times.program.gather_rows
    found = solve_step_des(plan, machine, times)
    spent = (found.ends - found.starts - found.stalled)[:, None]
    lags = step_tables(plan, machine, times)[1][:, None]
    assert step_time(times.program, found.ends[:, None], spent, lags)[0] == pytest.approx(times.total[0], rel=1e-12)
