"""Longest paths through a task graph over a trailing axis of columns.

`solve` goes level by level and gives every end: right for a few columns. `solve_rows` and `makespan` go task by task
with whole rows of columns, and keep only the rows that are still waited for: right for thousands.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from simcluster.engine.compiled import kernel_for
from simcluster.engine.rows import BLOCK, Kernel, RowSolver
from simcluster.program.graph import SOURCE, Ints, TaskGraph

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


def solve_rows(
    graph: TaskGraph,
    durations: Floats,
    lags: Floats | None = None,
    tasks: Sequence[int] | None = None,
    block: int = BLOCK,
    kernel: Kernel | None = None,
) -> Floats:
    """End times of some tasks for many columns; the same as those rows of `solve`, to the bit, in little memory.

    Parameters: as of `solve`; `tasks` whose ends are wanted (default: all); `block` columns are solved at a time. A
    lag table of one column holds for all. Returns (len(tasks), columns). `kernel` is that of `compiled_kernel` if
    numba is installed and the work is large, else numpy's.

    >>> from simcluster.program.graph import GraphBuilder, NO_LAG
    >>> build = GraphBuilder()
    >>> a = build.add(0)
    >>> b = build.add(1, after=[(a, NO_LAG)])
    >>> solve_rows(build.finish(), np.array([[1.0, 2.0], [2.0, 2.0]]), tasks=[b])
    array([[3., 4.]])
    """
    keep = range(len(graph)) if tasks is None else tasks
    columns = durations.shape[1]
    table = np.zeros((0, 1)) if lags is None else lags
    varies = (table != table[:, :1]).any(axis=1)
    width = max(1, min(block, columns))
    chosen = kernel or kernel_for(len(graph) * columns)
    solver = RowSolver(graph, keep, len(durations), table[:, 0] if len(table) else np.zeros(0), varies, width, chosen)
    found = np.empty((len(keep), columns))
    for start in range(0, columns, width):
        part = slice(start, min(start + width, columns))
        count = part.stop - part.start
        solver.tables.durations[:, :count] = durations[:, part]
        if varies.any():
            solver.tables.lags[varies, :count] = table[varies, part]
        found[:, part] = solver.run(count)
    return found


def makespan(graph: TaskGraph, durations: Floats, lags: Floats | None = None) -> Floats:
    """When the last task of each column ends: (columns,). Equal columns are solved once; parameters as of `solve_rows`.

    >>> from simcluster.program.graph import GraphBuilder
    >>> build = GraphBuilder()
    >>> for row in range(2):
    ...     _ = build.add(row)
    >>> makespan(build.finish(), np.array([[1.0, 3.0, 1.0], [2.0, 2.0, 2.0]])).tolist()
    [2.0, 3.0, 2.0]
    """
    columns = durations.shape[1]
    table = np.zeros((0, 1)) if lags is None else lags
    if not len(graph) or not columns:
        return np.zeros(columns)
    differ = table if table.shape[1] == columns else table[:0]
    first, number = distinct(np.vstack([durations, np.broadcast_to(differ, (len(differ), columns))]).T)
    own = table[:, first] if len(differ) else table
    ends = solve_rows(graph, durations[:, first], own, last_tasks(graph, table))
    found: Floats = ends.max(axis=0)[number]
    return found


def distinct(rows: Floats) -> tuple[Ints, Ints]:
    """First of each kind among equal rows, and for every row the number of its kind.

    >>> distinct(np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]]))[0].tolist()
    [0, 1]
    """
    solid = np.ascontiguousarray(rows)
    if not solid.size:
        return np.zeros(min(1, len(solid)), dtype=np.int64), np.zeros(len(solid), dtype=np.int64)
    _, first, number = np.unique(_keys(solid), return_index=True, return_inverse=True)
    if (solid != solid[first[number.ravel()]]).any():  # two kinds share a key
        as_one = solid.view(np.dtype((np.void, solid.dtype.itemsize * solid.shape[1]))).ravel()
        _, first, number = np.unique(as_one, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return first[order], place[number.ravel()]


def _keys(rows: Floats) -> NDArray[np.uint64]:
    """A number for each row, the same for equal rows and hardly ever for others: sorted ten times faster than rows."""
    bits = (rows + 0.0).view(np.uint64)  # 0.0 instead of -0.0
    bits ^= bits >> np.uint64(29)  # short numbers have their bits at the top, and products only carry upwards
    odd = np.random.default_rng(0).integers(0, 2**64, rows.shape[1], dtype=np.uint64) | np.uint64(1)
    keys: NDArray[np.uint64] = bits @ odd
    return keys


def last_tasks(graph: TaskGraph, lags: Floats) -> list[int]:
    """Tasks one of which ends last: no other waits for their end (one that does by a lag >= 0 ends no earlier)."""
    waits = np.append((lags >= 0).all(axis=1), True)[graph.lag] & (graph.predecessor != SOURCE)
    candidate = np.ones(len(graph), dtype=bool)
    candidate[graph.predecessor[waits]] = False
    return [int(task) for task in np.flatnonzero(candidate)]
