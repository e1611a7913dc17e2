"""Task graphs: what waits for what. Durations stay outside, so that one graph serves many columns of them.

A task ends at `max(0, max over predecessors (end + lag)) + duration`. Durations and lags are rows of tables whose
columns are replicas, samples, candidates or idealisations. A lag may be negative: a predecessor that releases its
successor before it ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

NO_LAG = -1  # stands for a lag of zero
SOURCE = -1  # the start of the program, at time zero
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Level:
    """Tasks that depend on earlier levels only: a slice of the level order and its padded predecessors.

    predecessors, lags: (tasks, width) positions in level order and rows of the lag table.
    """

    start: int
    stop: int
    predecessors: Ints
    lags: Ints


@dataclass(frozen=True)
class TaskGraph:
    """A static program of `n` tasks.

    duration    (n,) row of the duration table
    stream      (n,) number of the stream (resource) that runs the task
    pointer     (n+1,) predecessors of task i are predecessor[pointer[i]:pointer[i+1]]
    predecessor (edges,) task, or SOURCE
    lag         (edges,) row of the lag table, or NO_LAG
    """

    duration: Ints
    stream: Ints
    pointer: Ints
    predecessor: Ints
    lag: Ints

    def __len__(self) -> int:
        return len(self.duration)

    @cached_property
    def compiled(self) -> dict[tuple[Any, ...], Any]:
        """What engines have made of this graph and keep with it, each under a name of its own."""
        return {}

    @cached_property
    def level_order(self) -> Ints:
        """Tasks sorted by level; raises ValueError on a cycle."""
        return np.concatenate(self._frontiers) if self._frontiers else np.zeros(0, dtype=np.int64)

    @cached_property
    def _frontiers(self) -> list[Ints]:
        count = len(self)
        consumer = np.repeat(np.arange(count), np.diff(self.pointer))
        real = self.predecessor != SOURCE
        by_producer = np.argsort(self.predecessor[real], kind="stable")
        successor = consumer[real][by_producer]
        fan_out = np.bincount(self.predecessor[real], minlength=count)
        first = np.concatenate([[0], np.cumsum(fan_out)])
        waiting = np.bincount(consumer[real], minlength=count)
        frontier = np.flatnonzero(waiting == 0)
        found: list[Ints] = []
        while frontier.size:
            found.append(frontier)
            counts = fan_out[frontier]
            offsets = np.repeat(first[frontier] - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts)
            released = successor[offsets + np.arange(counts.sum())]
            np.subtract.at(waiting, released, 1)
            frontier = np.unique(released[waiting[released] == 0])
        if sum(map(len, found)) != count:
            raise ValueError("the program has a cycle: some task waits for itself")
        return found

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """Levels in order, with predecessors as positions in `level_order` (`n` stands for the source)."""
        count = len(self)
        position = np.empty(count + 1, dtype=np.int64)
        position[self.level_order] = np.arange(count)
        position[count] = count
        levels, start = [], 0
        degree = np.diff(self.pointer)
        for tasks in self._frontiers:
            width = max(1, int(degree[tasks].max()))
            slots = np.arange(width)
            edges = self.pointer[tasks][:, None] + slots
            valid = slots < degree[tasks][:, None]
            edges = np.where(valid, edges, 0)
            producer = np.where(valid, self.predecessor[edges] if self.predecessor.size else 0, SOURCE)
            lags = np.where(valid, self.lag[edges] if self.lag.size else 0, NO_LAG)
            levels.append(Level(start, start + len(tasks), position[producer], lags))
            start += len(tasks)
        return tuple(levels)


class GraphBuilder:
    """Collects tasks one by one; `finish` freezes them.

    >>> builder = GraphBuilder()
    >>> first = builder.add(0, stream=0)
    >>> last = builder.add(1, stream=1, after=[(first, NO_LAG)])
    >>> len(builder.finish())
    2
    """

    def __init__(self) -> None:
        self._duration: list[int] = []
        self._stream: list[int] = []
        self._edges: list[tuple[tuple[int, int], ...]] = []

    def add(self, duration: int, stream: int = 0, after: Iterable[tuple[int, int]] = ()) -> int:
        """Adds a task with a row of the duration table and predecessors as (task, lag row); returns its number."""
        self._duration.append(duration)
        self._stream.append(stream)
        self._edges.append(tuple(after))
        return len(self._duration) - 1

    def finish(self) -> TaskGraph:
        """The frozen graph."""
        return join_edges(
            np.asarray(self._duration, dtype=np.int64), np.asarray(self._stream, dtype=np.int64), self._edges
        )


def join_edges(duration: Ints, stream: Ints, edges: Sequence[tuple[tuple[int, int], ...]]) -> TaskGraph:
    """A graph from lists of (predecessor, lag row) for each task."""
    counts = np.fromiter((len(own) for own in edges), dtype=np.int64, count=len(edges))
    flat = np.asarray([pair for own in edges for pair in own], dtype=np.int64).reshape(-1, 2)
    pointer = np.concatenate([[0], np.cumsum(counts)])
    return TaskGraph(duration, stream, pointer, flat[:, 0], flat[:, 1])


def graph_from_edges(duration: Ints, stream: Ints, consumer: Ints, predecessor: Ints, lag: Ints) -> TaskGraph:
    """A graph from three arrays of edges in any order."""
    order = np.argsort(consumer, kind="stable")
    pointer = np.concatenate([[0], np.cumsum(np.bincount(consumer, minlength=len(duration)))])
    return TaskGraph(duration, stream, pointer, predecessor[order], lag[order])
