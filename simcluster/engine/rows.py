"""Longest paths for many columns at once: one row for each task that is still waited for, used again and again.

A task's row is free once its last reader has run, so a pipeline needs about two rows a stage, and a block of columns
stays in the processor's cache. Each end is the same maximum of sums as in `maxplus.solve`, to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simcluster.program.graph import NO_LAG, SOURCE, Ints, TaskGraph

Floats = NDArray[np.float64]
BLOCK = 4096  # columns solved together: 2,048 to 8,192 are within a third of each other for pipelines of 16 stages


@dataclass(frozen=True)
class RowProgram:
    """Tasks in level order, by row.

    rows       how many there are
    pointer    (tasks + 1,) edges of a task are source[pointer[i]:pointer[i+1]]
    source     (edges,) row that the edge reads, or SOURCE
    lag        (edges,) row of the lag table, or NO_LAG
    duration   (tasks,) row of the duration table
    target     (tasks,) row that the task writes
    kept       rows of the tasks that a caller reads, in his order
    """

    rows: int
    pointer: Ints
    source: Ints
    lag: Ints
    duration: Ints
    target: Ints
    kept: Ints


def row_program(graph: TaskGraph, keep: Sequence[int]) -> RowProgram:
    """Rows of a graph, those of the tasks in `keep` free of other use; made once for each graph and `keep`.

    >>> from simcluster.program.graph import GraphBuilder
    >>> build, last = GraphBuilder(), SOURCE
    >>> for _ in range(100):
    ...     last = build.add(0, after=[(last, NO_LAG)])
    >>> row_program(build.finish(), [last]).rows
    2
    """
    key = ("rows", tuple(int(task) for task in keep))
    if key not in graph.compiled:
        graph.compiled[key] = _assigned(graph, key[1])
    found: RowProgram = graph.compiled[key]
    return found


def _assigned(graph: TaskGraph, keep: tuple[int, ...]) -> RowProgram:
    """Linear scan: a task takes a free row, then frees those that nobody reads later; it never writes what it reads."""
    order = graph.level_order
    edges, pointer = _edges_in(graph, order)
    producer = graph.predecessor[edges]
    reader = np.repeat(np.arange(len(order)), np.diff(pointer))
    last = np.full(len(graph), -1)
    real = producer != SOURCE
    np.maximum.at(last, producer[real], reader[real])
    last[list(keep)] = len(order)
    row, free, rows = [0] * len(graph), list[int](), 0
    ends, bounds, producers = last.tolist(), pointer.tolist(), producer.tolist()
    for place, task in enumerate(order.tolist()):
        if not free:
            free.append(rows)
            rows += 1
        row[task] = free.pop()
        done = {one for one in producers[bounds[place] : bounds[place + 1]] if one != SOURCE and ends[one] == place}
        free.extend(row[one] for one in sorted(done))
        if ends[task] < 0:
            free.append(row[task])
    where = np.asarray(row, dtype=np.int64)
    source = np.where(real, where[producer], SOURCE) if len(graph) else producer
    return RowProgram(rows, pointer, source, graph.lag[edges], graph.duration[order], where[order], where[list(keep)])


def _edges_in(graph: TaskGraph, order: Ints) -> tuple[Ints, Ints]:
    """Edges by their consumer's place in an order, and where each consumer's begin."""
    degree = np.diff(graph.pointer)[order]
    pointer = np.concatenate([[0], np.cumsum(degree)])
    edges = np.repeat(graph.pointer[order] - pointer[:-1], degree) + np.arange(pointer[-1])
    return edges, pointer


@dataclass(frozen=True)
class Tables:
    """A block of columns: durations [s] (rows, columns); lags [s] that all columns share (rows,); for those that differ
    (`varies`) a table (rows, columns).
    """

    durations: Floats
    shared: Floats
    varies: NDArray[np.bool_]
    lags: Floats


# Solves a block: program, its tables, and where to write the rows of ends.
Kernel = Callable[[RowProgram, Tables, Floats], None]
Operation = tuple[Any, Any, Any, Any]


class RowSolver:
    """Solves one graph for block after block of columns; `tables` are to be filled in between.

    keep      tasks whose ends are wanted
    shared    lags that all columns share; `varies` marks those that have a row in `tables.lags`
    """

    def __init__(
        self,
        graph: TaskGraph,
        keep: Sequence[int],
        duration_rows: int,
        shared: Floats,
        varies: NDArray[np.bool_],
        columns: int,
        kernel: Kernel | None = None,
    ) -> None:
        self.program = row_program(graph, keep)
        wide = _apart(columns)
        lags = np.zeros((len(shared) if varies.any() else 0, wide))
        self.tables = Tables(np.zeros((duration_rows, wide)), shared, varies, lags)
        self.ends = np.zeros((self.program.rows, wide))
        self._kernel = kernel
        self._operations = [] if kernel else operations(self.program, self.tables, self.ends)

    def run(self, columns: int) -> Floats:
        """Ends of the kept tasks in the first columns: (tasks, columns)."""
        if self._kernel:
            self._kernel(self.program, self.tables, self.ends)
        for function, one, other, into in self._operations:
            function(one, other, out=into)
        return self.ends[self.program.kept, :columns]


def _apart(columns: int) -> int:
    """At least as many columns, an odd number of cache lines a row: rows do not compete for the same lines then."""
    per_line = 8
    return per_line * (-(-columns // per_line) | 1)


def operations(program: RowProgram, tables: Tables, ends: Floats) -> list[Operation]:
    """The block's work as whole-row additions and maxima, (function, operand, operand, result) each."""
    written: list[Operation] = []
    bounds, sources, lags = program.pointer.tolist(), program.source.tolist(), program.lag.tolist()
    writer = _Writer(tables, ends, written)
    for place, (duration, target) in enumerate(zip(program.duration.tolist(), program.target.tolist())):
        edges = slice(bounds[place], bounds[place + 1])
        writer.task(sources[edges], lags[edges], duration, target)
    return written


class _Writer:
    """Writes operations with views of the tables, so that running them looks nothing up."""

    def __init__(self, tables: Tables, ends: Floats, written: list[Operation]) -> None:
        self.ends, self.durations, self.written = list(ends), list(tables.durations), written
        self.shared, self.varies, self.lags = tables.shared.tolist(), tables.varies.tolist(), list(tables.lags)
        self.waits, self.spare = np.empty(ends.shape[1]), np.empty(ends.shape[1])

    def task(self, sources: list[int], lags: list[int], duration: int, target: int) -> None:
        """max(0, ends + lags) + duration."""
        floor, latest, above = 0.0, None, False  # above: some wait is certainly not negative
        for source, lag in zip(sources, lags):
            differs = lag != NO_LAG and self.varies[lag]
            shared = 0.0 if lag == NO_LAG or differs else self.shared[lag]
            if source == SOURCE and not differs:
                floor = max(floor, shared)
                continue
            above |= source != SOURCE and not differs and shared >= 0.0
            wait = self._wait(
                source, self.lags[lag] if differs else shared, self.waits if latest is None else self.spare
            )
            if latest is None:
                latest = wait
            else:
                self.written.append((np.maximum, latest, wait, self.waits))
                latest = self.waits
        if latest is not None and (floor > 0.0 or not above):
            self.written.append((np.maximum, latest, floor, self.waits))
            latest = self.waits
        self.written.append((np.add, floor if latest is None else latest, self.durations[duration], self.ends[target]))

    def _wait(self, source: int, lag: Any, into: Floats) -> Any:
        """End of a source plus lag, as a row."""
        if source == SOURCE:
            return lag
        if isinstance(lag, float) and lag == 0.0:
            return self.ends[source]
        self.written.append((np.add, self.ends[source], lag, into))
        return into
