"""Micro-batches of unequal size against hand computation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.engine.maxplus import solve
from simcluster.program.sizes import sized
from simcluster.program.step import StepShape, step_program


def _program(schedule="1f1b", pp=2, m=2, wires=False):
    v = 2 if schedule == "dualpipe" else 1
    none = ((0,) * v,) * pp
    return step_program(StepShape(schedule, pp, m, v, None, none, none, True, False, False, wires))


def _step(program, forward, backward, lag, sizes):
    durations, lags = np.zeros((program.duration_rows, 1)), np.zeros((program.lag_rows, 1))
    for part in range(program.parts):
        for position in range(3):
            durations[program.chunk_row(0, part, position)] = forward
            durations[program.chunk_row(1, part, position)] = backward
        for kind in (0, 1):
            if program.senders(kind)[part] >= 0:
                lags[program.message_lag(kind, part)] = lag
    one = sized(program, durations, lags, sizes)
    return float(solve(one.graph, one.durations, one.lags).max())


def test_two_stages_by_hand():
    """Sizes 1 and 3, forward 1, backward 2, message 0.5.

    Stage 0 runs F0 to 1 and F1 to 4. Stage 1 gets micro-batch 0 at 1.5, runs F0 to 2.5 and B0 to 4.5; micro-batch 1
    arrives at 4 + 1.5 = 5.5, F1 ends at 8.5, B1 at 14.5. Stage 0: B0 from 5 to 7; B1 from 14.5 + 1.5 = 16 to 22.
    """
    assert _step(_program(), 1.0, 2.0, 0.5, [1.0, 3.0]) == 22.0


def test_the_long_one_last_costs_more_than_first():
    program = _program(pp=4, m=8)
    first, last = (_step(program, 1.0, 2.0, 0.0, sizes) for sizes in ([4.0] + [1.0] * 7, [1.0] * 7 + [4.0]))
    assert first >= 4 * 3 + 7 * 3
    assert last >= first


@settings(deadline=None)
@given(st.integers(1, 4), st.lists(st.floats(0.1, 4), min_size=1, max_size=8), st.floats(0, 1))
def test_equal_sizes_scale_and_one_stage_adds_up(pp, sizes, lag):
    program = _program(pp=pp, m=len(sizes))
    plain = _step(program, 1.0, 2.0, lag, [1.0] * len(sizes))
    assert _step(program, 1.0, 2.0, lag, [2.5] * len(sizes)) == pytest.approx(2.5 * plain, rel=1e-12)
    assert _step(_program(pp=1, m=len(sizes)), 1.0, 2.0, lag, sizes) == pytest.approx(3 * sum(sizes), rel=1e-12)
    assert _step(program, 1.0, 2.0, lag, sizes) >= 3 * sum(sizes) - 1e-9


def test_sizes_that_do_not_fit():
    program = _program()
    tables = np.ones((program.duration_rows, 1)), np.ones((program.lag_rows, 1))
    for sizes in ([1.0], [1.0, 0.0]):
        with pytest.raises(ValueError, match="2 micro-batches need as many sizes"):
            sized(program, *tables, sizes)
    moving = _program(wires=True)
    with pytest.raises(ValueError, match="shards"):
        sized(moving, np.ones((moving.duration_rows, 1)), np.ones((moving.lag_rows, 1)), [1.0, 1.0])


def test_weight_gradients_grow_too():
    """ZB-H1, the second micro-batch twice the first; stage 0 runs F0 F1 B0 W0 B1 W1, stage 1 F0 B0 F1 B1 W0 W1."""
    program = _program("zb-h1")
    durations, lags = np.ones((program.duration_rows, 1)), np.zeros((program.lag_rows, 1))
    one = sized(program, durations, lags, [1, 2])
    ends = solve(one.graph, one.durations, one.lags)[: program.chunk_tasks, 0]
    assert ends.tolist() == [1, 3, 4, 5, 9, 11, 2, 3, 5, 7, 8, 10]


def test_a_pair_grows_as_its_parts_do():
    """Forward 1 and backward 3, together 4: of sizes a and b they take a + 3 b."""
    program = _program("dualpipe", m=4)
    durations, lags = np.zeros((program.duration_rows, 1)), np.zeros((program.lag_rows, 1))
    for kind, seconds in ((0, 1.0), (1, 3.0), (2, 1.5), (3, 1.5)):
        durations[program.chunk_row(kind, 0, 0) : program.chunk_row(kind + 1, 0, 0)] = seconds
    durations[program.pair_row(0, 0, 0) : program.beside_row] = 4.0
    sizes = [1.0, 2.0, 5.0, 1.0]
    one = sized(program, durations, lags, sizes)
    pairs = np.flatnonzero(program.pair == 1)
    assert pairs.size
    for task in pairs:
        ahead, behind = (sizes[program.micro[place]] for place in (task, task + 1))
        assert one.durations[task, 0] == pytest.approx(ahead + 3 * behind)
