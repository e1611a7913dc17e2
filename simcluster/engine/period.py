"""From the ends of a step's tasks to the time of a step."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simcluster.parallel.schedules.order import FORWARD
from simcluster.program.step import StepProgram

Floats = NDArray[np.float64]


def step_time(program: StepProgram, ends: Floats, spent: Floats, lags: Floats) -> Floats:
    """(columns,) time from one step to the next [s].

    Parameters: `ends` and `spent` (tasks, columns) end and duration of every task; `lags` the table of the program [s].
    Where all stages wait for each other at the end of a step (the gradient norm) it is the end of the last task. In a
    rolling schedule every stage goes on by itself, so that it is the longest window of a stage, from the first thing
    that it does in a step to the last: the next step runs the same way, that much later.
    """
    if not program.shape.rolling:
        longest: Floats = ends.max(axis=0)
        return longest
    graph, pp = program.graph, program.shape.pp
    meeting = (graph.duration == program.barrier_row) | (graph.duration == program.barrier_row + 1)
    stage = np.where(meeting, -1, graph.stream % pp)
    first = [_window_start(program, number, ends - spent, spent, lags) for number in range(pp)]
    last = [ends[stage == number].max(axis=0) for number in range(pp)]
    period: Floats = (np.array(last) - np.array(first)).max(axis=0)
    return period


def _window_start(program: StepProgram, stage: int, starts: Floats, spent: Floats, lags: Floats) -> Floats:
    """When a stage begins: its first operation, or a gather that this one waits for, put off as far as it can be."""
    pp = program.shape.pp
    begins: Floats = starts[np.flatnonzero(program.virtual_stage % pp == stage)[0]]
    if not program.shape.overlap_gather:
        return begins
    gathered, first = np.zeros(starts.shape[1]), program.chunk_tasks * (1 + program.shape.wire_count)
    for row, (own, chunk, _) in enumerate(program.gather_rows):
        if own != stage:
            continue
        gathered = gathered + spent[first + row]
        forwards = np.flatnonzero((program.kind == FORWARD) & (program.virtual_stage == chunk * pp + stage))
        needed = starts[forwards[0]] - lags[program.need_base + row]
        begins = np.minimum(begins, needed - gathered)
    return begins
