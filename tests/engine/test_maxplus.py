"""The solver against networkx' longest path on random graphs, and against hand-computed ends."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.engine.maxplus import solve
from simcluster.program.graph import NO_LAG, SOURCE, GraphBuilder, graph_from_edges


@st.composite
def programs(draw):
    count = draw(st.integers(1, 14))
    lags = draw(st.lists(st.floats(-1.0, 3.0), min_size=1, max_size=4))
    tasks = []
    for task in range(count):
        producers = draw(st.lists(st.integers(-1, task - 1), max_size=4))
        rows = draw(st.lists(st.integers(-1, len(lags) - 1), min_size=len(producers), max_size=len(producers)))
        tasks.append(list(zip(producers, rows)))
    durations = draw(st.lists(st.floats(0.0, 5.0), min_size=count, max_size=count))
    return tasks, durations, lags


def oracle(tasks, durations, lags):
    """Longest path by networkx: an edge carries its lag and the duration of its consumer, the source starts at 0."""
    graph = nx.DiGraph()
    for task, edges in enumerate(tasks):
        graph.add_edge("start", task, weight=durations[task])
        for producer, row in edges:
            weight = durations[task] + (0.0 if row == NO_LAG else lags[row])
            origin = "start" if producer == SOURCE else producer
            known = graph.get_edge_data(origin, task, {"weight": -np.inf})["weight"]
            graph.add_edge(origin, task, weight=max(weight, known))
    ends = {}
    for task in nx.topological_sort(graph):
        arrivals = [ends[p] + graph[p][task]["weight"] for p in graph.predecessors(task)]
        ends[task] = max(arrivals, default=0.0)
    return np.array([ends[task] for task in range(len(tasks))])


@given(programs())
@settings(max_examples=200, deadline=None)
def test_equals_networkx(program):
    tasks, durations, lags = program
    builder = GraphBuilder()
    for row, edges in enumerate(tasks):
        builder.add(row, after=edges)
    ends = solve(builder.finish(), np.array(durations)[:, None], np.array(lags)[:, None])[:, 0]
    np.testing.assert_allclose(ends, oracle(tasks, durations, lags), rtol=1e-12, atol=1e-12)


@given(programs(), st.integers(0, 13), st.floats(0.0, 2.0))
@settings(deadline=None)
def test_longer_ops_never_shorten_the_program_and_columns_do_not_mix(program, which, extra):
    tasks, durations, lags = program
    builder = GraphBuilder()
    for row, edges in enumerate(tasks):
        builder.add(row, after=edges)
    slow = np.array(durations)
    slow[which % len(slow)] += extra
    both = solve(builder.finish(), np.stack([durations, slow], axis=1), np.repeat(np.array(lags)[:, None], 2, axis=1))
    assert (both[:, 1] >= both[:, 0]).all()
    alone = solve(builder.finish(), np.array(durations)[:, None], np.array(lags)[:, None])
    assert (both[:, :1] == alone).all()


def test_a_cycle_is_refused():
    edges = np.array([0, 1]), np.array([1, 0]), np.array([NO_LAG, NO_LAG])
    graph = graph_from_edges(np.array([0, 0]), np.array([0, 0]), *edges)
    with pytest.raises(ValueError, match="cycle"):
        solve(graph, np.ones((1, 1)))
