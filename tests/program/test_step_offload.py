"""Steps whose states live outside the GPU, worked out by hand: one stage, forward 1, backward 2, two pieces."""

from __future__ import annotations

import numpy as np
import pytest

from simcluster.engine.des import simulate
from simcluster.engine.maxplus import solve
from simcluster.program.graph import TaskGraph, graph_from_edges
from simcluster.program.step import POSITIONS, StepProgram, StepShape, step_program


def program(pieces: int = 2, buckets: int = 0, schedule: str = "1f1b", pp: int = 1, drives: bool = False, **more):
    counts, none = ((pieces,),) * pp, ((0,),) * pp
    shape = StepShape(
        schedule, pp, max(1, 2 * pp - 1), 1, None, ((buckets,),) * pp, none, True, True, False,
        host_copies=counts, drives=drives, **more,
    )  # fmt: skip
    return step_program(shape)


def tables(step: StepProgram, down=0.0, update=0.0, up=0.0, read=0.0, write=0.0) -> tuple[np.ndarray, np.ndarray]:
    durations, lags = np.zeros((step.duration_rows, 1)), np.zeros((step.lag_rows, 1))
    for kind in range(step.kinds):
        for part in range(step.parts):
            row = step.chunk_row(kind, part, 0)
            durations[row : row + POSITIONS] = 1.0 if step.kinds > 2 else 1 + kind
    for base, seconds in zip(
        range(step.to_host_base, step.duration_rows, step.copies), (down, update, up, read, write)
    ):
        durations[base : base + step.copies] = seconds
    return durations, lags


def task_of(step: StepProgram, row: int) -> int:
    (found,) = np.flatnonzero(step.graph.duration == row)
    return int(found)


def without(graph: TaskGraph, consumer: int, producer: int) -> TaskGraph:
    """The graph less one edge, which it has."""
    to = np.repeat(np.arange(len(graph)), np.diff(graph.pointer))
    gone = (to == consumer) & (graph.predecessor == producer)
    assert gone.sum() == 1
    return graph_from_edges(graph.duration, graph.stream, to[~gone], graph.predecessor[~gone], graph.lag[~gone])


def test_copies_that_hide_cost_nothing():
    """Gradients are there at 2 and at 3; a copy of 1 from 2 to 3 hides, one of 0.25 from 3 on is all that shows."""
    step = program()
    durations, lags = tables(step, down=0.25)
    lags[step.copy_base] = -1.0
    durations[step.to_host_base] = 1.0
    assert solve(step.graph, durations, lags).max() == 3.25


def test_each_copy_and_update_waits_for_what_it_needs():
    """Copies 2 to 3.5 to 5, updates of 2 from 3.5 and 5.5 to 7.5, copies of 0.5 back from 7.5 to 8."""
    step = program()
    durations, lags = tables(step, down=1.5, update=2.0, up=0.5)
    lags[step.copy_base] = -1.0
    durations[step.optimizer_base] = 0.25
    assert solve(step.graph, durations, lags).max() == 8.25
    down, update, up = (
        [task_of(step, base + piece) for piece in range(2)]
        for base in (step.to_host_base, step.update_base, step.to_gpu_base)
    )
    optimizer, backward = task_of(step, step.optimizer_base), int(np.flatnonzero(step.kind == 1)[0])

    def less(consumer: int, producer: int) -> float:
        return float(solve(without(step.graph, consumer, producer), durations, lags).max())

    assert less(down[0], backward) == 7.75  # gone by 1.5: updated from the norm at 3 to 5, the second then to 7
    assert less(down[1], down[0]) == 8.25  # the first update is what the second waits for
    assert less(update[0], down[0]) == 7.75  # updated 3 to 5; the second, copied at 5, 5 to 7
    assert less(update[1], update[0]) == 7.75  # updated 5 to 7
    assert less(up[1], update[1]) == 7.5  # back by 6.5; the step ends with the update
    assert less(optimizer, up[1]) == 8.0


def test_updates_wait_for_the_norm_of_all_stages():
    step = program(pp=2)
    durations, lags = tables(step, update=1.0)
    durations[step.barrier_row] = 0.5
    lags[step.copy_base :] = -1.0
    ends = solve(step.graph, durations, lags)[:, 0]
    barrier = ends[task_of(step, step.barrier_row)]
    assert [ends[task_of(step, step.update_base + piece)] - barrier for piece in range(4)] == [1, 2, 1, 2]


def test_a_piece_leaves_once_its_bucket_is_summed():
    """Buckets of 1.5 end at 3.5 and 5; copies of 0.25 behind each."""
    step = program(buckets=2)
    durations, lags = tables(step, down=0.25)
    durations[step.bucket_base : step.gather_base] = 1.5
    lags[step.release_base] = -1.0
    ends = solve(step.graph, durations, lags)[:, 0]
    assert [ends[task_of(step, step.to_host_base + piece)] for piece in range(2)] == [3.75, 5.25]
    assert ends.max() == 5.25


def test_reduced_shards_leave_behind_the_wire():
    step = program(wires=True)
    durations, lags = tables(step, down=0.25)
    durations[step.wire_base : step.to_host_base] = 2.5  # of forward to 2.5, of backward from there: to 5
    lags[step.copy_base] = -1.0
    ends = solve(step.graph, durations, lags)[:, 0]
    assert [ends[task_of(step, step.to_host_base + piece)] for piece in range(2)] == [4.25, 5.25]


def test_a_shared_table_leaves_last_when_it_is_exchanged():
    shape = StepShape("1f1b", 2, 3, 1, None, ((0,), (0,)), ((0,), (0,)), True, True, True, host_copies=((2,), (2,)))
    step = step_program(shape)
    durations, lags = tables(step, down=0.25)
    durations[step.barrier_row + 1] = 0.5
    ends = solve(step.graph, durations, lags)[:, 0]
    exchanged = ends[task_of(step, step.barrier_row + 1)]
    assert [ends[task_of(step, step.to_host_base + piece)] > exchanged for piece in range(4)] == [False, True] * 2


def test_drives_read_one_piece_ahead():
    """From 3: read to 4, to 5, update 4 to 4.5, write 5 to 7, read to 8, write to 10, update 8 to 8.5, write to 12."""
    step = program(pieces=3, drives=True)
    durations, lags = tables(step, update=0.5, read=1.0, write=2.0)
    ends = solve(step.graph, durations, lags)[:, 0]
    reads, writes = (
        [ends[task_of(step, step.to_gpu_base + (1 + kind) * step.copies + piece)] for piece in range(3)]
        for kind in range(2)
    )
    assert (reads, writes) == ([4, 5, 8], [7, 10, 12])
    assert [ends[task_of(step, step.update_base + piece)] for piece in range(3)] == [4.5, 5.5, 8.5]
    assert ends.max() == 12


def test_slow_updates_hold_back_the_drives():
    """Update of 4 from 4 to 8: the first write waits for it, and with it the third read, to 9."""
    step = program(pieces=3, drives=True)
    durations, lags = tables(step, update=4.0, read=0.5, write=0.5)
    ends = solve(step.graph, durations, lags)[:, 0]
    assert ends[task_of(step, step.update_base)] == 7.5
    assert ends[task_of(step, step.to_gpu_base + step.copies + 2)] == 8.5
    assert ends.max() == 3 + 0.5 + 3 * 4 + 0.5


def test_without_a_common_norm_parameters_wait_for_the_last_backward():
    """Stages that roll on update as gradients come; the copy back waits until nobody reads the old parameters."""
    step = program(schedule="zb-h2", pp=2)
    durations, lags = tables(step, down=0.01, update=0.01, up=0.01)
    lags[step.copy_base :] = -0.9
    ends = solve(step.graph, durations, lags)[:, 0]
    starts = ends - durations[step.graph.duration, 0]
    for piece, (stage, _, _) in enumerate(step.copy_rows):
        own = ends[: step.chunk_tasks][step.virtual_stage == stage].max()
        assert starts[task_of(step, step.to_gpu_base + piece)] >= own
        assert ends[task_of(step, step.update_base + piece)] < own


def test_nothing_is_added_where_states_stay_on_the_gpu():
    none = ((0,),)
    step = step_program(StepShape("1f1b", 1, 1, 1, None, none, none, True, True, False))
    assert (step.copies, step.copy_rows, step.duration_rows, step.lag_rows) == (0, (), step.wire_base, step.copy_base)


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "zb-h1", "zb-h2"])
@pytest.mark.parametrize("drives", [False, True])
def test_event_by_event_it_is_the_same(schedule, drives):
    step = program(pieces=3, schedule=schedule, pp=2, drives=drives)
    random = np.random.default_rng(0)
    durations, lags = tables(step)
    durations[step.to_host_base :] = random.uniform(0, 1, (step.duration_rows - step.to_host_base, 1))
    lags[step.copy_base :] = random.uniform(-0.9, 0, (step.copies, 1))
    ends = simulate(step.graph, durations[:, 0], lags[:, 0]).ends
    assert ends == pytest.approx(solve(step.graph, durations, lags)[:, 0], rel=1e-12)
