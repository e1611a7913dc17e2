"""Critical paths of steps in words."""

import numpy as np
import pytest

from simcluster.analysis.critical_path import critical_step, read_path
from simcluster.program.step import StepShape, step_program


def small(slow_last=1.25, lag=0.1):
    none = ((0,),) * 4
    program = step_program(StepShape("1f1b", 4, 8, 1, None, none, none, True, False, False))
    durations, lags = np.zeros(program.duration_rows), np.zeros(program.lag_rows)
    for kind, seconds in ((0, 1.0), (1, 2.0)):
        for part in range(4):
            row = program.chunk_row(kind, part, 0)
            durations[row : row + 3] = seconds * (slow_last if part == 3 else 1.0)
            lags[program.message_lag(kind, part)] = lag
    return program, durations, lags


def test_the_slow_last_stage_in_words():
    """30 of 39.6 s on stage 3; 10 % less of it saves 3 s, and all chunks 3.9."""
    found = read_path(*small())
    assert found.sentence(1) == "The step takes 39.6 s: 76 % forward and backward of stage 3, 24 % others."
    first = found.parts[0]
    assert (first.what, first.stage, first.seconds) == ("forward and backward", 3, pytest.approx(30.0))
    assert first.gain_s == pytest.approx(3.0)
    assert found.levers[0] == ("forward and backward", pytest.approx(3.9))
    assert found.advice() == (
        "10 % less forward and backward on all stages would shorten the step by 9.8 %, "
        "10 % less forward and backward of stage 3 alone by 7.6 %."
    )


def test_no_work_has_no_advice():
    program, durations, lags = small()
    found = read_path(program, 0 * durations, 0 * lags)
    assert found.total_s == 0.0
    assert found.advice() == "Nothing alone would shorten the step."


@pytest.mark.parametrize(
    "training",
    [
        {"parallelism": {"tp": 2, "pp": 4, "dp": None}, "sharding": {"strategy": "zero-1"}},
        {"parallelism": {"tp": 2, "pp": 1, "dp": None}, "sharding": {"strategy": "none"}},
        {"parallelism": {"tp": 1, "pp": 1, "dp": None, "sequence_parallel": None}, "sharding": {"strategy": "fsdp"}},
    ],
)
def test_parts_sum_to_the_step(run, training):
    evaluation = run({"cluster": {"nodes": 2, "fabric": "ib-hdr-200"}, "training": {"global_batch": 32, **training}})
    found = critical_step(evaluation.resolved.plan, evaluation.resolved.machine, evaluation.times)
    assert found.total_s == float(evaluation.times.total[0])
    assert sum(part.seconds for part in found.parts) == pytest.approx(found.total_s, rel=1e-9)
    assert all(0 <= part.gain_s <= 0.1 * found.total_s * (1 + 1e-9) for part in found.parts)
    known = {
        "forward and backward",
        "messages",
        "gradient reduction",
        "parameter gathers",
        "gradient norm",
        "optimizer",
    }
    assert {part.what for part in found.parts} <= known


@pytest.mark.parametrize("schedule", ["zb-h1", "zb-h2", "dualpipe"])
def test_other_schedules_have_paths_too(run, schedule):
    parallelism = {"tp": 2, "pp": 4, "dp": None, "schedule": schedule}
    evaluation = run({"cluster": {"nodes": 4}, "training": {"global_batch": 128, "parallelism": parallelism}})
    found = critical_step(evaluation.resolved.plan, evaluation.resolved.machine, evaluation.times)
    assert sum(part.seconds for part in found.parts) == pytest.approx(found.total_s, rel=1e-9)
    rolls = schedule == "zb-h2"
    assert found.rolling == rolls
    assert (found.total_s > float(evaluation.times.total[0])) == rolls
    assert found.sentence().startswith("From its first task" if rolls else "The step takes")
