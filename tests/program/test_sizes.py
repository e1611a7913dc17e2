"""Micro-batches of unequal size, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from simcluster.engine.des import simulate
from simcluster.engine.maxplus import solve
from simcluster.program.sizes import sized
from simcluster.program.step import POSITIONS, StepProgram, StepShape, step_program
from simcluster.program.step_rows import PAIR


def program(schedule: str, pp: int, m: int, **more) -> StepProgram:
    none = ((0,) * (2 if schedule == "dualpipe" else 1),) * pp
    return step_program(StepShape(schedule, pp, m, len(none[0]), None, none, none, True, False, False, **more))


def tables(step: StepProgram, seconds: tuple[float, ...], message: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Times by kind; messages [s]."""
    durations, lags = np.zeros((step.duration_rows, 1)), np.zeros((step.lag_rows, 1))
    for kind in range(step.kinds):
        durations[step.chunk_row(kind, 0, 0) : step.chunk_row(kind + 1, 0, 0)] = seconds[kind]
    lags[: 2 * step.parts] = message
    return durations, lags


def total(schedule: str, pp: int, sizes: list[float], seconds: tuple[float, ...], message: float = 0.0) -> float:
    step = program(schedule, pp, len(sizes))
    one = sized(step, *tables(step, seconds, message), sizes)
    ends = solve(one.graph, one.durations, one.lags)
    np.testing.assert_allclose(simulate(one.graph, one.durations[:, 0], one.lags[:, 0]).ends, ends[:, 0], rtol=1e-12)
    return float(ends.max())


def test_a_second_micro_batch_three_times_as_large():
    """Stage 1: F0 1-2, B0 2-4, F1 4-7, B1 7-13; stage 0 ends with B1 at 13 + 6."""
    assert total("1f1b", 2, [1, 3], (1, 2)) == 19


def test_its_messages_take_three_times_as_long():
    """Message 0.5: F0 1.5-2.5, B0 2.5-4.5, F1 from 4 + 1.5 to 8.5, B1 to 14.5, then 1.5 + 6."""
    assert total("1f1b", 2, [1, 3], (1, 2), 0.5) == 22


def test_weight_gradients_grow_too():
    """ZB-H1, the second micro-batch twice the first; stage 0 runs F0 F1 B0 W0 B1 W1, stage 1 F0 B0 F1 B1 W0 W1."""
    step = program("zb-h1", 2, 2)
    one = sized(step, *tables(step, (1.0, 9.0, 1.0, 1.0)), [1, 2])
    ends = solve(one.graph, one.durations, one.lags)[: step.chunk_tasks, 0]
    # stage 0: F0 0-1, F1 1-3, B0 3-4, W0 4-5, B1 7-9, W1 9-11; stage 1: F0 1-2, B0 2-3, F1 3-5, B1 5-7, W0 7-8, W1 8-10
    assert ends.tolist() == [1, 3, 4, 5, 9, 11, 2, 3, 5, 7, 8, 10]


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "zb-h1", "zb-h2", "dualpipe"])
def test_equal_sizes_change_nothing_and_twos_double(schedule):
    step = program(schedule, 2, 4)
    durations, lags = tables(step, (1.0, 2.5, 1.0, 1.5), 0.25)
    if schedule == "dualpipe":
        durations[step.chunk_row(PAIR, 0, 0) : step.chunk_row(PAIR + 1, 0, 0)] = 3.0
    plain = solve(step.graph, durations, lags)
    for factor in (1.0, 2.0):
        one = sized(step, durations, lags, [factor] * 4)
        np.testing.assert_allclose(solve(one.graph, one.durations, one.lags), factor * plain, rtol=1e-12)


def test_a_pair_grows_as_its_parts_do():
    """Forward 1 of micro-batch 1, backward 3 of micro-batch 2: sizes 1 and 5 make 4 into 16."""
    step = program("dualpipe", 2, 4)
    durations, lags = tables(step, (1.0, 3.0, 1.5, 1.5))
    durations[step.chunk_row(PAIR, 0, 0) : step.chunk_row(PAIR, 0, 0) + step.parts * POSITIONS] = 4.0
    one = sized(step, durations, lags, [1, 1, 5, 1])
    found = {int(step.micro[task + 1]): one.durations[task, 0] for task in np.flatnonzero(step.pair == 1)}
    assert found
    for task in np.flatnonzero(step.pair == 1):
        own, other = (float([1, 1, 5, 1][step.micro[place]]) for place in (task, task + 1))
        assert one.durations[task, 0] == pytest.approx(own + 3 * other)


@pytest.mark.parametrize("sizes", [[1.0], [1.0, 0.0], [1.0, -1.0]])
def test_sizes_that_do_not_fit(sizes):
    step = program("1f1b", 2, 2)
    with pytest.raises(ValueError, match="2 micro-batches need as many sizes > 0"):
        sized(step, *tables(step, (1, 2)), sizes)


def test_shards_that_move_inside_chunks():
    step = program("1f1b", 2, 2, wires=True)
    with pytest.raises(ValueError, match="not simulated"):
        sized(step, *tables(step, (1, 2)), [1, 1])
