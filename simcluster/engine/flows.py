"""Flows of bytes that share links fairly: rates by progressive filling, and a fluid simulation of them.

Weighted max-min fairness after Bertsekas and Gallager 1992 ("Data Networks", section 6.5.2): all rates rise together,
in proportion to their weights, until a link is full; its flows keep what they have and the others rise on.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from simcluster.program.wiring import Flow

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_SAME = 1.0 + 1e-12  # levels closer than that are one
_DONE_BYTES = 1e-6  # what rounding leaves of a flow


def symmetric_classes(usage: Floats, weight: Floats, limit: Floats) -> tuple[Ints, Ints, Ints]:
    """Flows that load the same links alike: first flow of each class, class of each flow, flows in each class.

    >>> first, member, count = symmetric_classes(np.eye(2)[[0, 1, 0]], np.ones(3), np.ones(3))
    >>> member.tolist(), sorted(count.tolist())
    ([1, 0, 1], [1, 2])
    """
    rows = np.ascontiguousarray(np.column_stack([usage, weight, limit]))
    whole = rows.view([("", np.void, rows.shape[1] * rows.itemsize)]).ravel()
    _, first, member, count = np.unique(whole, return_index=True, return_inverse=True, return_counts=True)
    return first, member.ravel(), count


def max_min_rates(
    capacity: ArrayLike, usage: ArrayLike, weight: ArrayLike = 1.0, limit: ArrayLike = math.inf
) -> Floats:
    """Weighted max-min fair rates.

    Parameters
    ----------
    capacity : (links,) [B/s]
        Of each link, >= 0.
    usage : (flows, links)
        Bytes on a link for each byte that a flow moves, >= 0.
    weight : float or (flows,)
        Of each flow, > 0.
    limit : float or (flows,) [B/s]
        Rate that a flow never passes, > 0.

    Returns
    -------
    (flows,) rates [B/s]; infinite for a flow that nothing holds back.

    >>> links = [10.0, 6.0, 8.0]
    >>> paths = [[1, 1, 0], [1, 0, 0], [0, 1, 1], [0, 0, 1]]
    >>> max_min_rates(links, paths).tolist()
    [3.0, 7.0, 3.0, 5.0]
    """
    loads = np.atleast_2d(np.asarray(usage, dtype=float))
    count = len(loads)
    weights = np.broadcast_to(np.asarray(weight, dtype=float), count)
    limits = np.broadcast_to(np.asarray(limit, dtype=float), count)
    if count == 0:
        return np.zeros(0)
    first, member, members = symmetric_classes(loads, weights, limits)
    rates = _fill(np.array(capacity, dtype=float), loads[first], weights[first], limits[first], members)
    return rates[member]


def _fill(left: Floats, usage: Floats, weight: Floats, limit: Floats, members: Ints) -> Floats:
    """Progressive filling over classes of flows; `left` is used up."""
    active = np.ones(len(usage), dtype=bool)
    rates = np.full(len(usage), math.inf)
    demand = (members * weight)[:, None] * usage
    own_level = limit / weight
    levels = np.empty(len(left))
    while active.any():
        need = demand[active].sum(axis=0)
        levels.fill(math.inf)
        np.divide(left, need, out=levels, where=need > 0)
        level = min(float(levels.min(initial=math.inf)), float(own_level[active].min()))
        if level == math.inf:
            break
        stopped = active & ((usage[:, levels <= level * _SAME] > 0).any(axis=1) | (own_level <= level * _SAME))
        rates[stopped] = np.minimum(level * weight[stopped], limit[stopped])
        left = np.maximum(left - (members[stopped] * rates[stopped]) @ usage[stopped], 0.0)
        active &= ~stopped
    return rates


class Fluid:
    """Flows under way. Whoever drives it starts and ends flows and changes links; each call returns the flows whose
    end has moved, as (number, new end [s]); infinite while nothing moves.

    Only flows that share links, directly or through others, are looked at again.

    >>> fluid = Fluid([50e9])
    >>> fluid.start(0, Flow(100e9, ((0, 1.0),)), 0.0)
    [(0, 2.0)]
    >>> fluid.start(1, Flow(25e9, ((0, 1.0),)), 1.0)    # both go at half speed from now on
    [(0, 3.0), (1, 2.0)]
    >>> fluid.end(1, 2.0)
    [(0, 2.5)]
    """

    def __init__(self, bytes_per_s: Iterable[float]) -> None:
        self.capacity = [float(one) for one in bytes_per_s]
        self.carried = [0.0] * len(self.capacity)  # bytes that each link has carried
        self.ends: dict[int, float] = {}
        self.rates: dict[int, float] = {}
        self._flows: dict[int, Flow] = {}
        self._left: dict[int, float] = {}
        self._since: dict[int, float] = {}
        self._on_link: list[dict[int, None]] = [{} for _ in self.capacity]

    def start(self, number: int, flow: Flow, now_s: float) -> list[tuple[int, float]]:
        """A flow begins to move, its latency paid."""
        self._flows[number], self._left[number], self._since[number] = flow, flow.bytes, now_s
        self.rates[number], self.ends[number] = -1.0, math.inf  # no rate yet
        links = [link for link, used in flow.path if used > 0]
        for link in links:
            self._on_link[link][number] = None
        return self._share(links, now_s, number)

    def end(self, number: int, now_s: float) -> list[tuple[int, float]]:
        """A flow leaves, done or not."""
        self._settle(number, now_s)
        flow = self._flows.pop(number)
        for table in (self._left, self._since, self.rates, self.ends):
            del table[number]
        links = [link for link, used in flow.path if used > 0]
        for link in links:
            del self._on_link[link][number]
        return self._share(links, now_s)

    def set_capacity(self, link: int, bytes_per_s: float, now_s: float) -> list[tuple[int, float]]:
        """A link gets another capacity."""
        self.capacity[link] = bytes_per_s
        return self._share([link], now_s)

    def _settle(self, number: int, now_s: float) -> None:
        """Books what a flow has moved since its rate last changed."""
        rate = self.rates[number]
        moved = self._left[number] if self.ends[number] <= now_s else rate * (now_s - self._since[number])
        self._left[number] -= moved
        self._since[number] = now_s
        if moved:
            for link, used in self._flows[number].path:
                self.carried[link] += moved * used

    def _neighbours(self, links: Iterable[int]) -> list[int]:
        """Flows that share links with these, directly or through others."""
        found: dict[int, None] = {}
        seen, open_links = set(links), list(links)
        while open_links:
            for number in self._on_link[open_links.pop()]:
                if number not in found:
                    found[number] = None
                    fresh = [link for link, used in self._flows[number].path if used > 0 and link not in seen]
                    seen.update(fresh)
                    open_links += fresh
        return list(found)

    def _share(self, links: Iterable[int], now_s: float, new: int | None = None) -> list[tuple[int, float]]:
        numbers = self._neighbours(links)
        if new is not None and not numbers:
            numbers = [new]
        moved = []
        for number, rate in zip(numbers, self._fair(numbers)):
            if rate == self.rates[number]:
                continue
            self._settle(number, now_s)
            self.rates[number] = rate
            left = self._left[number]
            wait = left / rate if rate > 0 else math.inf
            self.ends[number] = now_s if left <= _DONE_BYTES else now_s + wait
            moved.append((number, self.ends[number]))
        return moved

    def _fair(self, numbers: Sequence[int]) -> Sequence[float]:
        flows = [self._flows[number] for number in numbers]
        if len(flows) == 1:
            alone = flows[0]
            free = [self.capacity[link] / used for link, used in alone.path if used > 0]
            return [min([*free, alone.limit_bytes_per_s])]
        links = sorted({link for flow in flows for link, _ in flow.path})
        column = {link: index for index, link in enumerate(links)}
        usage = np.zeros((len(flows), len(links)))
        for row, flow in enumerate(flows):
            for link, used in flow.path:
                usage[row, column[link]] += used
        capacity = np.array([self.capacity[link] for link in links])
        weight = np.array([flow.weight for flow in flows])
        limit = np.array([flow.limit_bytes_per_s for flow in flows])
        rates: list[float] = max_min_rates(capacity, usage, weight, limit).tolist()
        return rates


@dataclass(frozen=True, slots=True)
class FlowRun:
    """What became of some flows.

    ends_s     (flows,) when each was done; infinite for one that never is
    carried    (links,) bytes that each link carried
    history    (time [s], rates [B/s] of the flows that move from then on, by number)
    """

    ends_s: Floats
    carried: Floats
    history: tuple[tuple[float, dict[int, float]], ...]


def simulate_flows(
    bytes_per_s: Sequence[float],
    flows: Sequence[Flow],
    arrivals_s: Sequence[float] | None = None,
    changes: Sequence[tuple[float, int, float]] = (),
) -> FlowRun:
    """Moves flows over links until all are done or nothing moves any more.

    Parameters: `bytes_per_s` of each link; `arrivals_s` of each flow, 0 if not given (latency comes on top); `changes`
    as (time [s], link, new capacity [B/s]).

    >>> simulate_flows([50e9], [Flow(100e9, ((0, 1.0),)), Flow(25e9, ((0, 1.0),))]).ends_s.tolist()
    [2.5, 1.0]
    """
    fluid = Fluid(bytes_per_s)
    ends = np.full(len(flows), math.inf)
    starts = [0.0] * len(flows) if arrivals_s is None else arrivals_s
    # Kinds in the order in which they happen at one time: ends, links, arrivals.
    queue: list[tuple[float, int, int, float]] = [(time, 1, link, capacity) for time, link, capacity in changes]
    queue += [(start + flow.latency_s, 2, number, 0.0) for number, (start, flow) in enumerate(zip(starts, flows))]
    heapq.heapify(queue)
    history = []
    while queue:
        now, kind, number, value = heapq.heappop(queue)
        if kind == 0 and fluid.ends.get(number) != now:
            continue
        if kind == 0:
            ends[number] = now
            moved = fluid.end(number, now)
        elif kind == 1:
            moved = fluid.set_capacity(number, value, now)
        else:
            moved = fluid.start(number, flows[number], now)
        history.append((now, dict(fluid.rates)))
        for one, end in moved:
            if end < math.inf:
                heapq.heappush(queue, (end, 0, one, 0.0))
    return FlowRun(ends, np.array(fluid.carried), tuple(history))
