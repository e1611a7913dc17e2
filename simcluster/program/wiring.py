"""What a task graph moves over which links: the records that the discrete-event engine reads beside the graph.

Max-plus prices a transfer once; here it is a flow of bytes over named links, which it shares with whatever else is on
them at the time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from simcluster.program.graph import SOURCE, Ints, TaskGraph, graph_from_edges

NO_FLOW = -1  # a task that computes, or ends without sending anything
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Flow:
    """A transfer.

    bytes              to move, >= 0 [B]
    path               (link, bytes on that link for each byte moved) of every link it loads; a ring on many links is
                       one flow, since all its hops go forward together
    latency_s          paid before the first byte moves, >= 0
    weight             share of a crowded link in proportion to others' weights, > 0
    limit_bytes_per_s  fastest that it goes when alone, > 0
    streams            streams whose computing it slows while it runs
    sms, hbm           shares of a GPU's multiprocessors and memory bandwidth that it holds meanwhile, 0 to 1
    """

    bytes: float
    path: tuple[tuple[int, float], ...] = ()
    latency_s: float = 0.0
    weight: float = 1.0
    limit_bytes_per_s: float = math.inf
    streams: tuple[int, ...] = ()
    sms: float = 0.0
    hbm: float = 0.0


@dataclass(frozen=True)
class Wiring:
    """Flows of a task graph of `n` tasks.

    links         names, and bytes_per_s their capacities, one direction each [B/s]
    flows         the distinct ones
    transfer      (n,) flow that a task is (its duration row is not read), or NO_FLOW
    message       (n,) flow that leaves as a task ends, or NO_FLOW
    carried       (edges,) whether an edge waits for the message of its predecessor instead of its lag
    extra_s       (edges,) seconds between that message and the edge's end, >= 0
    sm_bound, hbm_bound   (n,) shares of a task's time that the multiprocessors, the memory bandwidth set, 0 to 1
    background    flows that never end
    """

    links: tuple[str, ...]
    bytes_per_s: Floats
    flows: tuple[Flow, ...]
    transfer: Ints
    message: Ints
    carried: NDArray[np.bool_]
    extra_s: Floats
    sm_bound: Floats
    hbm_bound: Floats
    background: tuple[Flow, ...] = field(default=())


def no_wiring(graph: TaskGraph) -> Wiring:
    """A graph without flows: every task and lag as long as its table says."""
    none, tasks, edges = np.full(len(graph), NO_FLOW), np.zeros(len(graph)), len(graph.predecessor)
    return Wiring((), np.zeros(0), (), none, none, np.zeros(edges, dtype=bool), np.zeros(edges), tasks, tasks)


def replicated(
    graph: TaskGraph, wiring: Wiring, shared: NDArray[np.bool_], replicas: int
) -> tuple[TaskGraph, Wiring, Ints]:
    """Several copies of a graph that meet in some tasks (the exchanges of data parallelism).

    `shared` (n,) marks the tasks that exist once: they wait for every copy, and their flows load the links of all.
    Every copy has links and streams of its own, the numbers of copy r moved up by r times those of one copy. Returns
    graph and wiring, and (replicas, n) the task of each copy.
    """
    count, private = len(graph), int((~shared).sum())
    place = np.empty((replicas, count), dtype=np.int64)
    place[:, ~shared] = np.arange(replicas * private).reshape(replicas, private)
    place[:, shared] = replicas * private + np.arange(count - private)
    origin = np.empty(replicas * private + count - private, dtype=np.int64)
    copy = np.zeros_like(origin)
    for number in reversed(range(replicas)):
        origin[place[number]] = np.arange(count)
        copy[place[number]] = number
    streams = int(graph.stream.max(initial=0)) + 1
    consumer = np.repeat(np.arange(count), np.diff(graph.pointer))
    once = shared[consumer] & ((graph.predecessor == SOURCE) | shared[graph.predecessor])
    edges = [np.flatnonzero(~once) if number else np.arange(len(consumer)) for number in range(replicas)]
    consumers = np.concatenate([place[number, consumer[own]] for number, own in enumerate(edges)])
    producers = [
        np.where(graph.predecessor[own] == SOURCE, SOURCE, place[number, graph.predecessor[own]])
        for number, own in enumerate(edges)
    ]
    order = np.argsort(consumers, kind="stable")
    edge = np.concatenate(edges)[order]
    whole = graph_from_edges(
        graph.duration[origin],
        graph.stream[origin] + copy * streams,
        consumers[order],
        np.concatenate(producers)[order],
        graph.lag[edge],
    )
    return whole, _copied(wiring, replicas, streams, (origin, copy, shared[origin]), edge), place


def _copied(
    wiring: Wiring, replicas: int, streams: int, tasks: tuple[Ints, Ints, NDArray[np.bool_]], edge: Ints
) -> Wiring:
    """Wiring of the copies; `tasks` are origin, copy, and whether it is shared, of each."""
    origin, copy, shared = tasks
    links, kinds = len(wiring.links), len(wiring.flows)
    flows = [_moved(flow, (number,), links, streams) for number in range(replicas) for flow in wiring.flows]
    flows += [_moved(flow, range(replicas), links, streams) for flow in wiring.flows]

    def flow_of(table: Ints) -> Ints:
        found = table[origin]
        return np.where(found == NO_FLOW, NO_FLOW, found + kinds * np.where(shared, replicas, copy))

    return Wiring(
        links=tuple(f"replica {number} {name}" for number in range(replicas) for name in wiring.links),
        bytes_per_s=np.tile(wiring.bytes_per_s, replicas),
        flows=tuple(flows),
        transfer=flow_of(wiring.transfer),
        message=flow_of(wiring.message),
        carried=wiring.carried[edge],
        extra_s=wiring.extra_s[edge],
        sm_bound=wiring.sm_bound[origin],
        hbm_bound=wiring.hbm_bound[origin],
        background=tuple(
            _moved(flow, (number,), links, streams) for number in range(replicas) for flow in wiring.background
        ),
    )


def _moved(flow: Flow, copies: Sequence[int], links: int, streams: int) -> Flow:
    """A flow on the links and streams of some copies."""
    return replace(
        flow,
        path=tuple((link + number * links, used) for number in copies for link, used in flow.path),
        streams=tuple(stream + number * streams for number in copies for stream in flow.streams),
    )
