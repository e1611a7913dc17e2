"""ZB-H2: warm-up filled with forwards up to 2 pp - 1 in flight, weight gradients wherever a stage would wait.

The order comes from list scheduling with given times (Qi et al. 2024 write theirs by hand, and search with an integer
program). With equal times no stage ever waits between its first and its last operation. The optimizer then must not
wait for the gradient norm of all stages: each stage steps on its own, and the norm is checked afterwards.
"""

from __future__ import annotations

import heapq
from functools import lru_cache

from simcluster.parallel.schedules.order import FORWARD, INPUT, WEIGHT, Order

_RANK = {INPUT: 0, FORWARD: 1, WEIGHT: 2}  # who goes first of two that can start together


class _Stage:
    """One stage of the list scheduling: what it has run, and when its results arrive."""

    def __init__(self, stage: int, pp: int) -> None:
        self.stage, self.last, self.room = stage, stage == pp - 1, 2 * pp - 1
        self.free = 0.0
        self.done = {FORWARD: 0, INPUT: 0, WEIGHT: 0}
        self.arrived: dict[int, list[float]] = {FORWARD: [], INPUT: []}  # ends of the neighbours' results
        self.ops: list[tuple[int, int, int]] = []

    def best(self, micro_batches: int) -> tuple[float, int, int] | None:
        """(start, rank, kind) of what can start earliest; None if nothing can."""
        found = []
        for kind in (FORWARD, INPUT):
            number, results = self.done[kind], self.arrived[kind]
            if number < min(len(results), micro_batches):
                found.append((max(self.free, results[number]), _RANK[kind], kind))
        if self.done[FORWARD] - self.done[WEIGHT] >= self.room:
            found = [one for one in found if one[2] != FORWARD]
        if self.done[WEIGHT] < self.done[INPUT]:
            found.append((self.free, _RANK[WEIGHT], WEIGHT))
        return min(found) if found else None

    def run(self, kind: int, end: float) -> None:
        self.ops.append((kind, self.done[kind], 0))
        self.done[kind] += 1
        self.free = end
        if kind == FORWARD and self.last:
            self.arrived[INPUT].append(end)


@lru_cache(maxsize=64)
def orders(pp: int, micro_batches: int, times: tuple[float, float, float] = (1.0, 1.0, 1.0)) -> tuple[Order, ...]:
    """Orders of all stages for times of forward, input gradients and weight gradients.

    >>> first = orders(4, 8)[0].text()
    >>> "".join(word[0] for word in first.split())
    'FFFFFFFBWBFBWBWBWBWBWWBW'
    """
    seconds = {FORWARD: times[0], INPUT: times[1], WEIGHT: times[2]}
    stages = [_Stage(stage, pp) for stage in range(pp)]
    stages[0].arrived[FORWARD] = [0.0] * micro_batches
    waiting: list[tuple[float, int, int, int]] = []
    current: list[tuple[float, int, int] | None] = [None] * pp

    def consider(stage: int) -> None:
        current[stage] = stages[stage].best(micro_batches)
        found = current[stage]
        if found is not None:
            heapq.heappush(waiting, (found[0], found[1], stage, found[2]))

    consider(0)
    while waiting:
        start, rank, stage, kind = heapq.heappop(waiting)
        if current[stage] != (start, rank, kind):
            continue  # something better has come up since
        end = start + seconds[kind]
        stages[stage].run(kind, end)
        target = stage + {FORWARD: 1, INPUT: -1, WEIGHT: pp}[kind]
        if 0 <= target < pp:
            stages[target].arrived[kind].append(end)
            consider(target)
        consider(stage)
    return tuple(Order.of(one.ops) for one in stages)


def order(pp: int, micro_batches: int, stage: int) -> Order:
    """Order of one stage for equal times.

    >>> order(4, 2, 3).text()
    'F0 B0 F1 B1 W0 W1'
    """
    return orders(pp, micro_batches)[stage]


def bubble_s(pp: int, forward_s: float, input_s: float, weight_s: float) -> float:
    """Idle time of a stage from its first to its last operation, with balanced stages, free messages, m >= 2 pp - 1.

    max(0, (pp - 1)(tf + tb - 2 tw)) for an order written for the times; that of equal times may be above it.

    >>> bubble_s(4, 1.0, 1.0, 1.0), round(bubble_s(4, 1.0, 1.2, 0.8), 9)
    (0.0, 1.8)
    """
    return max(0.0, (pp - 1) * (forward_s + input_s - 2 * weight_s))
