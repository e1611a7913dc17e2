"""A task graph as lists by task, the way events walk it: what starts, needs, hands over and sends what."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simcluster.program.graph import SOURCE, TaskGraph
from simcluster.program.wiring import NO_FLOW, Wiring

Floats = NDArray[np.float64]

HAND_OVER, NEED = range(2)  # marks of a task, in the order in which they count at one place
Mark = tuple[float, int, int, int]  # place in the task [s], which of the two, whose, which of his needs (-1: his start)

_LONG_AGO = -1e17  # a lag below it never binds
_ROUNDING = 1e-9  # share of a task's length by which a lag may miss it


class EventGraph:
    """By task: `length` [s], `stream`, `waits` (how many it waits for), `ready` (earliest start [s]), `marks` on the
    way; what it leaves: `after` its end, `at_end` to those that may have begun, `delivered` with its message.
    """

    def __init__(self, graph: TaskGraph, durations: Floats, lags: Floats | None, wiring: Wiring) -> None:
        self.graph, self.wiring, count = graph, wiring, len(graph)
        self.length: list[float] = np.where(wiring.transfer == NO_FLOW, durations[graph.duration], 0.0).tolist()
        self.stream: list[int] = graph.stream.tolist()
        self.transfer: list[int] = wiring.transfer.tolist()
        self.message: list[int] = wiring.message.tolist()
        self.waits = [0] * count
        self.ready = [0.0] * count
        self.after: list[list[tuple[int, float]]] = [[] for _ in range(count)]
        self.delivered: list[list[tuple[int, float]]] = [[] for _ in range(count)]
        self.marks: list[list[Mark]] = [[] for _ in range(count)]
        self.at_end: list[list[tuple[int, int]]] = [[] for _ in range(count)]
        self._edges(lags)
        for marks in self.marks:
            marks.sort()

    def _edges(self, lags: Floats | None) -> None:
        graph, wiring = self.graph, self.wiring
        table = np.append(np.zeros(0) if lags is None else lags, 0.0)  # NO_LAG is the last
        consumers = np.repeat(np.arange(len(graph)), np.diff(graph.pointer)).tolist()
        columns = (consumers, graph.predecessor.tolist(), table[graph.lag].tolist(), wiring.carried.tolist())
        for edge, (consumer, producer, lag, carried) in enumerate(zip(*columns)):
            if producer == SOURCE:
                self.ready[consumer] = max(self.ready[consumer], lag)
            elif carried:
                self.waits[consumer] += 1
                self.delivered[producer].append((consumer, float(wiring.extra_s[edge])))
            elif lag >= 0:
                self.waits[consumer] += 1
                self.after[producer].append((consumer, lag))
            elif lag > _LONG_AGO:
                self._early(producer, consumer, -lag)

    def _early(self, producer: int, consumer: int, ahead: float) -> None:
        """An edge whose consumer may run `ahead` seconds before its producer ends."""
        own = 0.0 if self.transfer[consumer] != NO_FLOW else self.length[consumer]
        place = min(ahead, own)
        need = -1
        if place > 0:
            need = len(self.marks[consumer])
            self.marks[consumer].append((place, NEED, consumer, need))
        else:
            self.waits[consumer] += 1
        left = ahead - place
        if left <= _ROUNDING * own:
            self.at_end[producer].append((consumer, need))
            return
        length = self.length[producer]
        if left > length * (1.0 + _ROUNDING) or self.transfer[producer] != NO_FLOW:
            raise ValueError(f"task {consumer} would have to start {ahead} s before task {producer} ends, too early")
        self.marks[producer].append((max(0.0, length - left), HAND_OVER, consumer, need))
