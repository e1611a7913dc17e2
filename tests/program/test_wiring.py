"""Copies of a graph that meet in an exchange."""

import numpy as np
import pytest

from simcluster.engine.des import Change, simulate
from simcluster.program.graph import NO_LAG, SOURCE, GraphBuilder
from simcluster.program.wiring import NO_FLOW, Flow, Wiring, replicated


@pytest.fixture
def training():
    """One second of computing, 20 B over the stage's link of 10 B/s, half a second of updating."""
    builder = GraphBuilder()
    compute = builder.add(0, 0, [(SOURCE, NO_LAG)])
    exchange = builder.add(1, 1, [(compute, NO_LAG)])
    builder.add(2, 0, [(exchange, NO_LAG)])
    graph, none = builder.finish(), np.zeros(3)
    flow, free = Flow(20.0, ((0, 1.0),), streams=(0,)), np.full(3, NO_FLOW)
    transfer = np.array([NO_FLOW, 0, NO_FLOW])
    wiring = Wiring(("a",), np.array([10.0]), (flow,), transfer, free, np.zeros(3, dtype=bool), none, none, none)
    return graph, wiring, np.array([False, True, False])


def test_what_is_shared_exists_once_and_loads_the_links_of_all(training):
    graph, wiring, shared = training
    whole, copies, place = replicated(graph, wiring, shared, 3)
    assert len(whole) == 3 * 2 + 1
    assert copies.links == ("replica 0 a", "replica 1 a", "replica 2 a")
    exchange = copies.flows[copies.transfer[place[0, 1]]]
    assert len(set(place[:, 1])) == 1
    assert exchange.path == ((0, 1.0), (1, 1.0), (2, 1.0))
    assert exchange.streams == (0, 2, 4)
    assert whole.stream[place[:, 0]].tolist() == [0, 2, 4]


def test_the_slowest_copy_and_the_slowest_link_set_the_pace(training):
    graph, wiring, shared = training
    whole, copies, place = replicated(graph, wiring, shared, 3)
    durations = np.array([1.0, 0.0, 0.5])
    run = simulate(whole, durations, None, copies)
    assert run.ends[place].tolist() == [[1.0, 3.0, 3.5]] * 3
    assert run.carried.tolist() == [20.0] * 3
    slow = simulate(whole, durations, None, copies, [Change(0.0, "stream", 2, 0.5), Change(3.0, "link", 2, 0.5)])
    assert slow.ends[place].tolist() == [[1.0, 5.0, 5.5], [2.0, 5.0, 6.0], [1.0, 5.0, 5.5]]


def test_one_copy_is_the_graph_itself(training):
    graph, wiring, shared = training
    whole, copies, place = replicated(graph, wiring, shared, 1)
    durations = np.array([1.0, 0.0, 0.5])
    alone, copy = simulate(graph, durations, None, wiring), simulate(whole, durations, None, copies)
    assert copy.ends[place[0]].tolist() == alone.ends.tolist()
