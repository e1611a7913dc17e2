"""Runs a task graph event by event, with links that flows share, computing that communication slows, and events in
mid-step.

Same rules as `simcluster.engine.maxplus`: a task starts once all that it waits for has ended and the lags have passed
(streams are serial because the graph's edges say so). A negative lag lets a task run ahead up to the point where it
needs its predecessor, where it stalls; what is left of the lag beyond the task's own length lets the predecessor hand
over before it ends. Without flows and changes the ends are those of max-plus.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import simpy
from numpy.typing import NDArray

from simcluster.engine.event_graph import HAND_OVER, NEED, EventGraph, Mark
from simcluster.engine.flows import Fluid
from simcluster.errors import SimclusterError
from simcluster.program.graph import TaskGraph
from simcluster.program.wiring import NO_FLOW, Flow, Wiring, no_wiring

Floats = NDArray[np.float64]

_MOST_HELD = 0.95  # share of a GPU that transfers can take from computing


@dataclass(frozen=True, slots=True)
class Change:
    """Something that happens to a link or a stream: from `time_s` on it runs at `factor` times its nominal speed.

    kind "link" changes a capacity (0: the link is down), "stream" the speed of computing; `index` names which.
    """

    time_s: float
    kind: Literal["link", "stream"]
    index: int
    factor: float


@dataclass(frozen=True, slots=True)
class Simulated:
    """A finished run: (tasks,) starts, ends and time stalled on the way [s]; (links,) bytes that each link carried;
    number of events.
    """

    starts: Floats
    ends: Floats
    stalled: Floats
    carried: Floats
    events: int

    @property
    def total(self) -> float:
        """When the last task ended [s]."""
        return float(self.ends.max(initial=0.0))


def simulate(
    graph: TaskGraph,
    durations: Floats,
    lags: Floats | None = None,
    wiring: Wiring | None = None,
    changes: Sequence[Change] = (),
) -> Simulated:
    """Runs a graph once.

    Parameters: `durations` and `lags` [s], one column of the tables that max-plus takes; `wiring` says which tasks and
    edges are flows; `changes` what happens on the way. Raises SimclusterError if a task never ends (its link is down
    for good), ValueError for a lag that reaches back before its predecessor starts.

    >>> from simcluster.program.graph import GraphBuilder
    >>> build = GraphBuilder()
    >>> a = build.add(0)
    >>> b = build.add(1, after=[(a, 0)])
    >>> simulate(build.finish(), np.array([1.0, 2.0]), np.array([0.5])).ends.tolist()
    [1.0, 3.5]
    """
    run = _Run(EventGraph(graph, durations, lags, wiring or no_wiring(graph)), changes)
    return run.finish()


class _Work:
    """A task that computes: where it is, how fast it goes, which mark comes next."""

    __slots__ = ("marks", "next", "place", "rate", "since", "stuck", "task", "version")

    def __init__(self, task: int, marks: list[Mark], rate: float, now: float) -> None:
        self.task, self.marks, self.rate, self.since = task, marks, rate, now
        self.next, self.place, self.version, self.stuck = 0, 0.0, 0, False


class _Run:
    """One run of a compiled graph. Times are kept apart from the clock of the events, so that they add up exactly."""

    def __init__(self, compiled: EventGraph, changes: Sequence[Change]) -> None:
        self.compiled, self.env = compiled, simpy.Environment()
        count = len(compiled.length)
        wiring = compiled.wiring
        self.starts, self.ends, self.stalled = [math.nan] * count, [math.nan] * count, [0.0] * count
        self.waits, self.ready = list(compiled.waits), list(compiled.ready)
        self.open: dict[tuple[int, int], float] = {}
        self.work: dict[int, _Work] = {}
        streams = max(compiled.stream, default=0) + 1
        self.running: list[dict[int, _Work]] = [{} for _ in range(streams)]
        self.speed = [1.0] * streams
        self.held = [(0.0, 0.0)] * streams
        self.fluid = Fluid(wiring.bytes_per_s)
        self.under_way: dict[int, tuple[int, Callable[[float], None]]] = {}
        self.flow_number = 0
        self.events = 0
        self._begin(changes)

    def _begin(self, changes: Sequence[Change]) -> None:
        for number, flow in enumerate(self.compiled.wiring.background):
            self._watch(self.fluid.start(-1 - number, flow, 0.0))
        for change in changes:
            self._at(change.time_s, self._changed, change)
        for task, waits in enumerate(self.waits):
            if waits == 0:
                self._at(self.ready[task], self._start, task)

    def finish(self) -> Simulated:
        """Runs to the end."""
        self.env.run()
        never = [task for task, end in enumerate(self.ends) if math.isnan(end)]
        if never:
            raise SimclusterError(f"{self._why(never)}; {len(never)} of {len(self.ends)} tasks never end")
        carried = np.array(self.fluid.carried)
        starts, ends, stalled = (np.array(one) for one in (self.starts, self.ends, self.stalled))
        return Simulated(starts, ends, stalled, carried, self.events)

    def _why(self, never: list[int]) -> str:
        links = self.compiled.wiring.links
        down = {
            links[link]
            for number, _ in self.under_way.items()
            for link, used in self._flow_of(number).path
            if used > 0 and self.fluid.capacity[link] <= 0
        }
        if down:
            return f"a transfer waits for {', '.join(sorted(down))}, down for good"
        return f"task {never[0]} waits for something that never happens"

    def _at(self, when: float, action: Callable[[float, Any], None], what: Any) -> None:
        """Calls `action(when, what)` at a time; one that rounding has put behind the clock happens at once."""
        delay = when - self.env.now
        event = self.env.timeout(delay if delay > 0 else 0.0)
        event.callbacks.append(lambda _: action(when, what))
        self.events += 1

    # Tasks

    def _start(self, now: float, task: int) -> None:
        self.starts[task] = now
        flow = self.compiled.transfer[task]
        if flow != NO_FLOW:
            self._launch(now, flow, partial(self._end, task=task))
            return
        stream = self.compiled.stream[task]
        work = _Work(task, self.compiled.marks[task], self._rate(task, stream), now)
        self.work[task] = work
        self.running[stream][task] = work
        self._go(work)

    def _go(self, work: _Work) -> None:
        """On to the next mark, or to the end."""
        if work.rate <= 0:
            return
        place = work.marks[work.next][0] if work.next < len(work.marks) else self.compiled.length[work.task]
        self._at(work.since + (place - work.place) / work.rate, self._reached, (work, work.version))

    def _reached(self, now: float, what: tuple[_Work, int]) -> None:
        work, version = what
        if version != work.version:
            return
        if work.next == len(work.marks):
            del self.work[work.task]
            del self.running[self.compiled.stream[work.task]][work.task]
            self._end(now, work.task)
            return
        place, kind, target, need = work.marks[work.next]
        if kind == NEED and (work.task, need) not in self.open:
            work.place, work.since, work.stuck = place, now, True
            return
        work.next += 1
        if kind == HAND_OVER:
            self._hand_over(now, target, need)
        self._go(work)

    def _end(self, now: float, task: int) -> None:
        self.ends[task] = now
        for consumer, lag in self.compiled.after[task]:
            self._arrive(consumer, now + lag)
        for consumer, need in self.compiled.at_end[task]:
            self._hand_over(now, consumer, need)
        message = self.compiled.message[task]
        if message != NO_FLOW:
            self._launch(now, message, partial(self._deliver, task=task))

    def _deliver(self, now: float, task: int) -> None:
        for consumer, extra in self.compiled.delivered[task]:
            self._arrive(consumer, now + extra)

    def _arrive(self, consumer: int, when: float) -> None:
        """Something that a task waits for is there at `when`."""
        self.ready[consumer] = max(self.ready[consumer], when)
        self.waits[consumer] -= 1
        if self.waits[consumer] == 0:
            self._at(self.ready[consumer], self._start, consumer)

    def _hand_over(self, now: float, consumer: int, need: int) -> None:
        if need < 0:
            self._arrive(consumer, now)
            return
        self.open[consumer, need] = now
        work = self.work.get(consumer)
        if work is not None and work.stuck and work.marks[work.next][3] == need:
            self.stalled[consumer] += now - work.since
            work.stuck, work.since = False, now
            work.next += 1
            self._go(work)

    # Speed of computing

    def _rate(self, task: int, stream: int) -> float:
        sms, hbm = self.held[stream]
        if not (sms or hbm):
            return self.speed[stream]
        wiring = self.compiled.wiring
        lost = float(wiring.sm_bound[task]) * _slower(sms) + float(wiring.hbm_bound[task]) * _slower(hbm)
        return self.speed[stream] / (1.0 + lost)

    def _again(self, now: float, stream: int) -> None:
        """What runs on a stream goes at another speed from now on."""
        for task, work in self.running[stream].items():
            rate = self._rate(task, stream)
            if rate == work.rate:
                continue
            if not work.stuck:
                work.place += work.rate * (now - work.since)
                work.since = now
                work.version += 1
            work.rate = rate
            if not work.stuck:
                self._go(work)

    def _changed(self, now: float, change: Change) -> None:
        if change.kind == "link":
            capacity = float(self.compiled.wiring.bytes_per_s[change.index]) * change.factor
            self._watch(self.fluid.set_capacity(change.index, capacity, now))
            return
        self.speed[change.index] = change.factor
        self._again(now, change.index)

    # Flows

    def _flow_of(self, number: int) -> Flow:
        return self.compiled.wiring.flows[self.under_way[number][0]]

    def _launch(self, now: float, flow: int, then: Callable[[float], None]) -> None:
        number, self.flow_number = self.flow_number, self.flow_number + 1
        self.under_way[number] = (flow, then)
        self._hold(now, flow, +1)
        self._at(now + self.compiled.wiring.flows[flow].latency_s, self._move, number)

    def _move(self, now: float, number: int) -> None:
        self._watch(self.fluid.start(number, self._flow_of(number), now))

    def _watch(self, moved: list[tuple[int, float]]) -> None:
        for number, end in moved:
            if end < math.inf:
                self._at(end, self._arrived, number)

    def _arrived(self, now: float, number: int) -> None:
        if self.fluid.ends.get(number) != now:
            return  # another flow has changed its end since
        flow, then = self.under_way.pop(number)
        self._watch(self.fluid.end(number, now))
        self._hold(now, flow, -1)
        then(now)

    def _hold(self, now: float, index: int, sign: int) -> None:
        flow = self.compiled.wiring.flows[index]
        if not (flow.sms or flow.hbm):
            return
        for stream in flow.streams:
            sms, hbm = self.held[stream]
            self.held[stream] = (sms + sign * flow.sms, hbm + sign * flow.hbm)
            self._again(now, stream)


def _slower(held: float) -> float:
    """Extra time of work whose resource is held to that share.

    >>> round(_slower(20 / 132), 4)
    0.1786
    """
    share = min(max(held, 0.0), _MOST_HELD)
    return share / (1.0 - share)
