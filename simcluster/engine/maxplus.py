"""Longest paths through a task graph, level by level, over a trailing axis of columns."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simcluster.program.graph import TaskGraph

Floats = NDArray[np.float64]


def solve(graph: TaskGraph, durations: Floats, lags: Floats | None = None) -> Floats:
    """End time of every task.

    Parameters: `durations` (rows, columns) seconds >= 0; `lags` (rows, columns) seconds, may be negative. Returns
    (tasks, columns) in task order. Exact: each end is a maximum of sums of the given numbers.

    >>> from simcluster.program.graph import GraphBuilder, NO_LAG
    >>> build = GraphBuilder()
    >>> a = build.add(0)
    >>> b = build.add(1, after=[(a, 0)])
    >>> solve(build.finish(), np.array([[1.0], [2.0]]), np.array([[0.5]]))[b]
    array([3.5])
    """
    count, columns = len(graph), durations.shape[1]
    ends = np.zeros((count + 1, columns))
    table = np.zeros((1 if lags is None else len(lags) + 1, columns))
    if lags is not None:
        table[:-1] = lags
    rows = durations[graph.duration[graph.level_order]]
    for level in graph.levels:
        waits = ends[level.predecessors[:, 0]] + table[level.lags[:, 0]]
        for slot in range(1, level.predecessors.shape[1]):
            np.maximum(waits, ends[level.predecessors[:, slot]] + table[level.lags[:, slot]], out=waits)
        np.maximum(waits, 0.0, out=waits)
        ends[level.start : level.stop] = waits + rows[level.start : level.stop]
    result = np.empty((count, columns))
    result[graph.level_order] = ends[:count]
    return result
