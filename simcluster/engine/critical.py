"""The critical path of a solved column: which tasks make it as long as it is, and how often each duration counts.

The makespan is a maximum of sums, so along the path it is a sum: the counts are its exact derivatives with respect to
the rows of the duration and lag tables, as long as no other path is as long.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simcluster.engine.maxplus import solve
from simcluster.program.graph import NO_LAG, SOURCE, Ints, TaskGraph

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class CriticalPath:
    """A longest path.

    length      of the program [s]
    tasks       on the path, first to last
    lags        row of the lag table through which each is reached, or NO_LAG
    durations   (rows,) how often each row of the duration table is on it: d(length)/d(duration)
    lag_counts  (rows,) the same of the lag table
    """

    length: float
    tasks: Ints
    lags: Ints
    durations: Ints
    lag_counts: Ints


def critical_path(graph: TaskGraph, durations: Floats, lags: Floats, ends: Floats | None = None) -> CriticalPath:
    """The critical path of one column.

    Parameters: `durations` (rows,) and `lags` (rows,) seconds; `ends` (tasks,) if they are known. Of paths of equal
    length: the one that ends with the first such task, and that stays on a task's own stream where it can.

    >>> from simcluster.program.graph import GraphBuilder
    >>> build = GraphBuilder()
    >>> a, b = build.add(0), build.add(1)
    >>> c = build.add(0, after=[(a, NO_LAG), (b, NO_LAG)])
    >>> path = critical_path(build.finish(), np.array([1.0, 3.0]), np.zeros(0))
    >>> path.length, path.tasks.tolist(), path.durations.tolist()
    (4.0, [1, 2], [1, 1])
    """
    if ends is None:
        ends = solve(graph, durations[:, None], lags[:, None])[:, 0]
    table = np.append(lags, 0.0)  # NO_LAG is the last
    tasks, reached = list[int](), list[int]()
    task = int(np.argmax(ends)) if len(graph) else SOURCE
    while task != SOURCE:
        tasks.append(task)
        task, lag = _before(graph, table, ends, task)
        reached.append(lag)
    on_path = np.asarray(tasks[::-1], dtype=np.int64)
    by = np.asarray(reached[::-1], dtype=np.int64)
    return CriticalPath(
        length=float(ends.max(initial=0.0)),
        tasks=on_path,
        lags=by,
        durations=np.bincount(graph.duration[on_path], minlength=len(durations)),
        lag_counts=np.bincount(by[by != NO_LAG], minlength=len(lags)),
    )


def _before(graph: TaskGraph, table: Floats, ends: Floats, task: int) -> tuple[int, int]:
    """The predecessor that a task starts right after, and the lag between; SOURCE if it starts with the program."""
    edges = slice(graph.pointer[task], graph.pointer[task + 1])
    producers, lags = graph.predecessor[edges], graph.lag[edges]
    if not len(producers):
        return SOURCE, NO_LAG
    waits = np.where(producers == SOURCE, 0.0, ends[producers]) + table[lags]
    latest = waits.max()
    if latest <= 0.0:
        return SOURCE, NO_LAG
    ties = np.flatnonzero(waits == latest)
    own = ties[(producers[ties] != SOURCE) & (graph.stream[producers[ties]] == graph.stream[task])]
    chosen = int(own[0]) if len(own) else int(ties[0])
    return int(producers[chosen]), int(lags[chosen])
