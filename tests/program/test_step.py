"""Step programs, solved, against the closed forms of pipeline schedules and the bounds on unequal stages."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.engine.maxplus import solve
from simcluster.program.step import StepShape, step_program


def makespan(schedule, pp, m, v=1, forward=1.0, backward=2.0, lag=0.0, blocking=0.0):
    """Makespan of a pipeline; `forward`, `backward` are scalars or one value a stage."""
    none = ((0,) * v,) * pp
    program = step_program(StepShape(schedule, pp, m, v, None, none, none, True, False, False))
    durations, lags = np.zeros((program.duration_rows, 1)), np.zeros((program.lag_rows, 1))
    for part in range(program.parts):
        for position in range(3):
            for kind, time in enumerate((forward, backward)):
                seconds = np.broadcast_to(time, pp)[part % pp]
                durations[program.chunk_row(kind, part, position)] = seconds / v
        for kind in (0, 1):
            lags[program.message_lag(kind, part)] = lag
            lags[program.own_lag(kind, part)] = blocking
    return float(solve(program.graph, durations, lags).max())


@pytest.mark.parametrize(
    ("schedule", "pp", "m", "v", "expected"),
    [
        ("gpipe", 4, 8, 1, 33.0),
        ("1f1b", 4, 8, 1, 33.0),
        ("1f1b", 4, 8, 2, 28.5),
        ("1f1b", 8, 16, 3, 55.0),
        ("1f1b", 4, 12, 4, 38.25),
    ],
)
def test_published_makespans(schedule, pp, m, v, expected):
    assert makespan(schedule, pp, m, v) == pytest.approx(expected, rel=1e-12)


@given(st.integers(1, 8), st.integers(1, 20), st.floats(0.1, 3), st.floats(0.1, 5))
@settings(deadline=None)
def test_gpipe_and_1f1b_equal_the_closed_form(pp, m, forward, backward):
    expected = (m + pp - 1) * (forward + backward)
    assert makespan("gpipe", pp, m, 1, forward, backward) == pytest.approx(expected, rel=1e-12)
    assert makespan("1f1b", pp, m, 1, forward, backward) == pytest.approx(expected, rel=1e-12)


@given(st.integers(2, 6), st.integers(1, 4), st.integers(2, 4), st.floats(0.1, 3), st.floats(0.1, 5))
@settings(deadline=None)
def test_interleaving_divides_the_bubble(pp, groups, v, forward, backward):
    m = pp * groups
    expected = m * (forward + backward) + (pp - 1) * (forward + backward) / v
    assert makespan("1f1b", pp, m, v, forward, backward) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("pp", "m", "v", "expected"), [(4, 8, 1, 34.6), (4, 16, 1, 59.8), (8, 32, 1, 123.8), (4, 8, 2, 29.9)]
)
def test_messages_cost_their_round_trips(pp, m, v, expected):
    assert makespan("1f1b", pp, m, v, lag=0.1) == pytest.approx(expected, rel=1e-12)


@given(st.integers(1, 6), st.integers(1, 12), st.data())
@settings(deadline=None)
def test_unequal_stages_lie_between_the_bounds(pp, m, data):
    times = st.lists(st.floats(0.1, 3), min_size=pp, max_size=pp)
    forward, backward = np.array(data.draw(times)), np.array(data.draw(times))
    both = forward + backward
    lower = max(both[:i].sum() + m * both[i] for i in range(pp))
    upper = both.sum() + (m - 1) * (forward.max() + backward.max())
    assert lower - 1e-9 <= makespan("1f1b", pp, m, 1, forward, backward) <= upper + 1e-9


def test_a_slow_last_stage():
    last = np.array([1.0, 1.0, 1.0, 1.25])
    assert makespan("1f1b", 4, 8, 1, last, 2 * last) == pytest.approx(39.0)


@given(st.integers(2, 5), st.integers(1, 8), st.floats(0.01, 1))
@settings(deadline=None)
def test_blocking_messages_are_never_faster(pp, m, lag):
    assert makespan("1f1b", pp, m, lag=lag, blocking=lag) >= makespan("1f1b", pp, m, lag=lag)


def tail(overlap_reduce, overlap_gather, reduce, gather, release=-5.0, need=0.0):
    """Step time of one stage, ten seconds of backward, three buckets and two gathers."""
    shape = StepShape("1f1b", 1, 1, 1, None, ((3,),), ((2,),), overlap_reduce, overlap_gather, False)
    program = step_program(shape)
    durations, lags = np.zeros((program.duration_rows, 1)), np.zeros((program.lag_rows, 1))
    durations[program.chunk_row(0, 0, 2)] = 5.0
    durations[program.chunk_row(1, 0, 2)] = 10.0
    durations[program.bucket_base : program.bucket_base + 3] = reduce
    durations[program.gather_base : program.gather_base + 2] = gather
    durations[program.optimizer_base] = 1.0
    lags[program.release_base : program.release_base + 3, 0] = [release, release / 2, 0.0]
    lags[program.need_base : program.need_base + 2, 0] = [0.0, -need]
    return float(solve(program.graph, durations, lags).max())


def test_gradient_buckets_overlap_the_backward():
    assert tail(False, False, 2.0, 1.0) == 5 + 10 + 3 * 2 + 1 + 2 * 1
    assert tail(True, False, 2.0, 0.0) == 15 + 2 + 1  # only the last bucket is exposed
    assert tail(True, False, 8.0, 0.0) == 10 + 3 * 8 + 1  # the queue of buckets begins five seconds before the end
    assert tail(False, False, 0.0, 0.0) == 16


def test_gathers_overlap_the_first_forward():
    assert tail(False, True, 0.0, 1.0, need=4.0) == 1 + 15 + 1  # the first is waited for, the second is in time
    assert tail(False, True, 0.0, 4.0, need=2.5) == 4 + (4 - 2.5) + 15 + 1
