"""Step programs of all schedules, solved, against closed forms, published figures and the rules that hold for any."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.engine.maxplus import solve
from simcluster.engine.period import step_time
from simcluster.parallel.schedules import breadth_first, dualpipe, gpipe, one_f_one_b, overlapped, zb_h1, zb_h2
from simcluster.parallel.schedules.order import BACKWARD, FORWARD, INPUT, WEIGHT
from simcluster.program.step import StepShape, step_program

TIMES = st.floats(0.1, 3)
SCHEDULES = ("gpipe", "1f1b", "interleaved", "breadth-first", "zb-h1", "zb-h2", "dualpipe")


def program_of(schedule, pp, m, v=1):
    name, v = ("1f1b", max(v, 2)) if schedule == "interleaved" else (schedule, v)
    v = 2 if schedule == "dualpipe" and pp > 1 else v
    none = ((0,) * v,) * pp
    return step_program(StepShape(name, pp, m, v, None, none, none, True, False, False))


def tables(program, forward=1.0, inputs=1.0, weights=1.0, lag=0.0, pair=None):
    """Durations and lags: forward, input and weight gradients of a whole stage, scalars or one value a stage."""
    pp, v = program.shape.pp, 1 if program.shape.two_way else program.shape.virtual_stages
    durations, lags = np.zeros((program.duration_rows, 1)), np.zeros((program.lag_rows, 1))
    of = [np.broadcast_to(one, pp) / v for one in (forward, inputs, weights)]
    seconds = {FORWARD: of[0], BACKWARD: of[1] + of[2], WEIGHT: of[2], INPUT: of[1]}
    for part, position in itertools.product(range(program.parts), range(3)):
        for kind in range(program.kinds):
            durations[program.chunk_row(kind, part, position)] = seconds[kind][part % pp]
        if program.shape.two_way:
            both = sum(of)[part % pp] if pair is None else pair
            durations[program.pair_row(part, (part + pp) % program.parts, position)] = both
        elif program.shape.paired:
            for mate in range(part % pp, program.parts, pp):
                durations[program.pair_row(part, mate, position)] = sum(of)[part % pp] if pair is None else pair
    for part, kind in itertools.product(range(program.parts), (0, 1)):
        if program.senders(kind)[part] >= 0:
            lags[program.message_lag(kind, part)] = lag
    return durations, lags


def solved(program, durations, lags):
    return solve(program.graph, durations, lags)


def makespan(schedule, pp, m, v=1, *times, **more):
    """From the first operation to the last; of ZB-H2 from one step to the next."""
    program = program_of(schedule, pp, m, v)
    durations, lags = tables(program, *times, **more)
    ends = solved(program, durations, lags)
    return float(step_time(program, ends, durations[program.graph.duration], lags)[0])


@pytest.mark.parametrize(
    ("schedule", "pp", "m", "times", "expected"),
    [
        ("gpipe", 4, 8, (1, 1, 1), 33),
        ("1f1b", 4, 8, (1, 1, 1), 33),
        ("zb-h1", 4, 8, (1, 1, 1), 27),
        ("zb-h1", 4, 8, (1, 1.2, 0.8), 28.2),
        ("zb-h2", 4, 8, (1, 1, 1), 24),
        ("dualpipe", 8, 20, (1, 1, 1), 66),
        ("dualpipe", 16, 40, (1, 1, 1), 134),
    ],
)
def test_published_makespans(schedule, pp, m, times, expected):
    assert makespan(schedule, pp, m, 1, *times) == pytest.approx(expected, rel=1e-12)


def test_zb_h2_first_to_last_operation_is_longer_by_the_skew():
    program = program_of("zb-h2", 4, 8)
    durations, lags = tables(program)
    assert solved(program, durations, lags)[: program.chunk_tasks].max() == 24 + 3


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 8), st.integers(1, 12), TIMES, TIMES, TIMES)
def test_zb_h1_bubble(pp, more, forward, inputs, weights):
    """Exact for as many micro-batches as stages and weight gradients that fit behind the rest, else a lower bound."""
    m = pp + more - 1
    found = makespan("zb-h1", pp, m, 1, forward, inputs, weights)
    bound = m * (forward + inputs + weights) + zb_h1.bubble_s(pp, forward, inputs, weights)
    if weights <= min(forward, inputs):
        assert found == pytest.approx(bound, rel=1e-12)
    else:
        assert found >= bound * (1 - 1e-12)


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 8), st.integers(0, 8), TIMES)
def test_zb_h2_never_waits_with_equal_times(pp, more, time):
    m = 2 * pp - 1 + more
    assert makespan("zb-h2", pp, m, 1, time, time, time) == pytest.approx(3 * m * time, rel=1e-12)
    assert zb_h2.bubble_s(pp, time, time, time) == 0


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 5), st.integers(0, 4), TIMES)
def test_dualpipe_bubble(half, more, time):
    """Exact for equal parts, and an overlapped pair that takes what its parts take."""
    pp = 2 * half
    m = 2 * pp + 2 * more
    closed = dualpipe.bubble_s(pp, 2 * time, time, 3 * time)
    assert makespan("dualpipe", pp, m, 1, time, time, time) == pytest.approx(3 * m * time + closed, rel=1e-12)


@settings(deadline=None, max_examples=15)
@given(st.integers(1, 3), TIMES, TIMES, TIMES, st.floats(0.4, 1.0))
def test_overlapped_pairs_shorten_dualpipe(half, forward, inputs, weights, share):
    pp, m, sum_s = 2 * half, 8 * half, forward + inputs + weights
    whole = makespan("dualpipe", pp, m, 1, forward, inputs, weights)
    assert whole >= m * sum_s * (1 - 1e-12)
    assert makespan("dualpipe", pp, m, 1, forward, inputs, weights, pair=share * sum_s) <= whole * (1 + 1e-12)


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 6), st.integers(1, 4), st.integers(2, 4), TIMES, TIMES)
def test_breadth_first_divides_the_bubble_as_depth_first_does(pp, groups, v, forward, backward):
    m = pp * groups
    found = makespan("breadth-first", pp, m, v, forward, backward, 0.0)
    assert found == pytest.approx(
        m * (forward + backward) + breadth_first.bubble_s(pp, forward, backward, v), rel=1e-12
    )
    assert found == pytest.approx(makespan("1f1b", pp, m, v, forward, backward, 0.0), rel=1e-12)


@pytest.mark.parametrize("schedule", [name for name in SCHEDULES if name != "dualpipe"])
@settings(deadline=None, max_examples=15)
@given(m=st.integers(1, 12), times=st.tuples(TIMES, TIMES, TIMES))
def test_one_stage_has_no_bubble(schedule, m, times):
    assert makespan(schedule, 1, m, 1, *times) == pytest.approx(m * sum(times), rel=1e-9)


@settings(deadline=None, max_examples=30)
@given(st.integers(2, 6), st.integers(1, 4), st.floats(0.0, 0.4))
def test_messages_add_their_round_trips(pp, groups, lag):
    """GPipe 2(p-1)c; 1F1B c(2(p-1)m/p + 2(p-2)) for p | m."""
    m = pp * groups
    bare, piped = m + pp - 1, 2 * (pp - 1) * lag
    assert makespan("gpipe", pp, m, lag=lag) == pytest.approx(3 * bare + piped, rel=1e-12)
    trips = lag * (2 * (pp - 1) * groups + 2 * (pp - 2))
    assert makespan("1f1b", pp, m, lag=lag) == pytest.approx(3 * bare + trips, rel=1e-12)


def _drawn(data, schedule):
    pp = data.draw(st.integers(1, 5)) if schedule != "dualpipe" else 2 * data.draw(st.integers(1, 3))
    m = data.draw(st.integers(1, 10)) if schedule != "dualpipe" else 2 * pp + 2 * data.draw(st.integers(0, 3))
    if schedule == "interleaved":
        pp, m = max(pp, 2), max(pp, 2) * data.draw(st.integers(1, 3))
    program = program_of(schedule, pp, m, 2 if schedule == "breadth-first" else 1)  # others have chunks of their own
    times = [data.draw(st.lists(TIMES, min_size=pp, max_size=pp).map(np.array)) for _ in range(3)]
    return program, tables(program, *times, lag=data.draw(st.floats(0, 0.5)))


@pytest.mark.parametrize("schedule", SCHEDULES)
@settings(deadline=None, max_examples=15)
@given(data=st.data())
def test_longer_parts_never_make_a_shorter_step_and_all_scale(schedule, data):
    program, (durations, lags) = _drawn(data, schedule)
    whole = solved(program, durations, lags).max()
    row = data.draw(st.integers(0, len(durations) - 1))
    more = durations.copy()
    more[row] += data.draw(st.floats(0, 2))
    assert solved(program, more, lags).max() >= whole - 1e-12
    assert solved(program, durations, lags + 0.1 * (lags > 0)).max() >= whole - 1e-12
    assert solved(program, 3 * durations, 3 * lags).max() == pytest.approx(3 * whole, rel=1e-12)


@pytest.mark.parametrize("schedule", SCHEDULES)
@settings(deadline=None, max_examples=15)
@given(data=st.data())
def test_every_operation_runs_once_in_order_and_alone(schedule, data):
    program, (durations, lags) = _drawn(data, schedule)
    ends = solved(program, durations, lags)[: program.chunk_tasks, 0]
    starts = ends - durations[program.graph.duration[: program.chunk_tasks], 0]
    seen = list(zip(program.kind.tolist(), program.micro.tolist(), program.virtual_stage.tolist()))
    assert len(set(seen)) == len(seen)
    at = {one: index for index, one in enumerate(seen)}
    for (kind, micro, part), index in at.items():
        if kind in (BACKWARD, INPUT):
            forward = at[FORWARD, micro, part]
            assert program.pair[index] == 2 or starts[index] >= ends[forward] - 1e-9
        if kind == WEIGHT:
            assert starts[index] >= ends[at[INPUT, micro, part]] - 1e-9
    passes = [sum(kind == one for kind, _, _ in seen) for one in (FORWARD, BACKWARD, WEIGHT, INPUT)]
    assert passes[0] == passes[1] + passes[3]
    assert passes[2] == passes[3]
    for stage in range(program.shape.pp):
        own = np.flatnonzero((program.virtual_stage % program.shape.pp == stage) & (program.pair != 2))
        assert (starts[own][1:] >= ends[own][:-1] - 1e-9).all()


def test_an_unequal_first_and_last_stage():
    slow = np.array([1.0, 1.0, 1.0, 1.25])
    assert makespan("1f1b", 4, 8, 1, slow, slow, slow) == pytest.approx(39.0)
    assert makespan("1f1b", 4, 8, 1, slow[::-1], slow[::-1], slow[::-1]) == pytest.approx(36.75)


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 5), st.integers(1, 10), st.data())
def test_1f1b_lies_between_its_bounds(pp, m, data):
    times = st.lists(TIMES, min_size=pp, max_size=pp).map(np.array)
    forward, backward = data.draw(times), data.draw(times)
    both = forward + backward
    found = makespan("1f1b", pp, m, 1, forward, backward, 0.0)
    assert max(both[:i].sum() + m * both[i] for i in range(pp)) <= found * (1 + 1e-12)
    assert found <= (both.sum() + (m - 1) * (forward.max() + backward.max())) * (1 + 1e-12)


def test_closed_bubbles_of_the_plain_schedules():
    assert gpipe.bubble_s(4, 1.0, 2.0) == one_f_one_b.bubble_s(4, 1.0, 2.0) == 9.0


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 6), st.integers(1, 4), st.integers(1, 3), TIMES, TIMES)
def test_pairs_that_take_what_their_parts_take_are_1f1b(pp, groups, v, forward, backward):
    m = pp * groups
    found = makespan("1f1b-overlapped", pp, m, v, forward, backward, 0.0)
    bubble = overlapped.bubble_s(pp, forward, backward, v)
    assert found == pytest.approx(m * (forward + backward) + bubble, rel=1e-12)


@settings(deadline=None, max_examples=15)
@given(st.integers(1, 5), st.integers(2, 12), TIMES, TIMES, st.floats(0.4, 1.0))
def test_shorter_pairs_shorten_the_steady_state_alone(pp, m, forward, backward, share):
    """One stage: warm-up forward, m - 1 pairs, the last backward. More: never below all pairs of a stage in a row."""
    both = share * (forward + backward)
    found = makespan("1f1b-overlapped", pp, m, 1, forward, backward, 0.0, pair=both)
    if pp == 1:
        assert found == pytest.approx(forward + (m - 1) * both + backward, rel=1e-12)
    assert found >= max(0, m - pp) * both
    assert found <= makespan("1f1b-overlapped", pp, m, 1, forward, backward, 0.0) * (1 + 1e-12)
