"""Critical paths: sums of what lies on them, derivatives of the makespan, worked examples."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.engine.critical import critical_path
from simcluster.engine.maxplus import solve
from simcluster.program.graph import NO_LAG, SOURCE, GraphBuilder
from simcluster.program.step import StepShape, step_program


@st.composite
def programs(draw):
    count = draw(st.integers(1, 14))
    tasks = [
        [(producer, draw(st.integers(NO_LAG, 2))) for producer in draw(st.lists(st.integers(0, task - 1), max_size=3))]
        if task
        else []
        for task in range(count)
    ]
    random = np.random.default_rng(draw(st.integers(0, 99)))
    return tasks, random.uniform(0.5, 3.0, count), random.uniform(-0.3, 2.0, 3)


def built(tasks):
    builder = GraphBuilder()
    for row, edges in enumerate(tasks):
        builder.add(row, after=edges)
    return builder.finish()


@given(programs())
@settings(max_examples=150, deadline=None)
def test_a_path_sums_to_the_length_that_networkx_finds(program):
    tasks, durations, lags = program
    path = critical_path(built(tasks), durations, lags)
    graph = nx.DiGraph()
    for task, edges in enumerate(tasks):
        graph.add_edge("start", task, weight=durations[task])
        for producer, row in edges:
            weight = durations[task] + (0.0 if row == NO_LAG else lags[row])
            known = graph.get_edge_data(producer, task, {"weight": -np.inf})["weight"]
            graph.add_edge(producer, task, weight=max(weight, known))
    assert path.length == pytest.approx(nx.dag_longest_path_length(graph), rel=1e-12)
    assert path.durations @ durations + path.lag_counts @ lags == pytest.approx(path.length, rel=1e-12)
    assert path.durations.sum() == len(path.tasks)


@given(programs())
@settings(max_examples=100, deadline=None)
def test_counts_are_the_derivatives(program):
    """Random durations: no other path is as long, so a small change shows them exactly."""
    tasks, durations, lags = program
    graph, step = built(tasks), 1e-7
    path = critical_path(graph, durations, lags)
    for row in range(len(durations)):
        longer = durations.copy()
        longer[row] += step
        found = (solve(graph, longer[:, None], lags[:, None]).max() - path.length) / step
        assert found == pytest.approx(path.durations[row], abs=1e-5)
    for row in range(len(lags)):
        later = lags.copy()
        later[row] += step
        found = (solve(graph, durations[:, None], later[:, None]).max() - path.length) / step
        assert found == pytest.approx(path.lag_counts[row], abs=1e-5)


def pipeline(slow_last=1.25, lag=0.1):
    """Four stages, eight micro-batches, forward 1, backward 2, one stage slower; (program, durations, lags)."""
    none = ((0,),) * 4
    program = step_program(StepShape("1f1b", 4, 8, 1, None, none, none, True, False, False))
    durations, lags = np.zeros(program.duration_rows), np.zeros(program.lag_rows)
    for kind, seconds in ((0, 1.0), (1, 2.0)):
        for part in range(4):
            for position in range(3):
                durations[program.chunk_row(kind, part, position)] = seconds * (slow_last if part == 3 else 1.0)
            lags[program.message_lag(kind, part)] = lag
    return program, durations, lags


def test_the_slowest_stage_makes_the_step():
    """Forward through three stages, all of the last one's work, backward through three: 39 and six messages of 0.1."""
    program, durations, lags = pipeline()
    path = critical_path(program.graph, durations, lags)
    assert path.length == pytest.approx(39.6)
    chunks = path.tasks[path.tasks < program.chunk_tasks]
    assert (program.virtual_stage[chunks] == 3).sum() == 16
    assert path.durations @ durations == pytest.approx(39.0)
    assert path.lag_counts @ lags == pytest.approx(0.6)


def test_equal_stages_take_turns():
    program, durations, lags = pipeline(slow_last=1.0)
    path = critical_path(program.graph, durations, lags)
    assert path.length == pytest.approx(34.6)
    assert (path.durations @ durations, path.lag_counts @ lags) == (pytest.approx(33.0), pytest.approx(1.6))


def test_limits_of_network_and_compute():
    """With messages that take no time only chunks are on the path, with chunks that take none only messages."""
    program, durations, lags = pipeline(slow_last=1.0)
    computing = critical_path(program.graph, durations, 0 * lags)
    assert computing.length == 33.0
    assert computing.durations @ durations == 33.0
    messages = critical_path(program.graph, 0 * durations, lags)
    assert messages.length == pytest.approx(messages.lag_counts @ lags)
    both = critical_path(program.graph, durations, lags)
    assert max(computing.length, messages.length) <= both.length <= (computing.length + messages.length) * (1 + 1e-12)


def test_ties_stay_on_their_stream_and_sources_end_the_path():
    build = GraphBuilder()
    other, own = build.add(0, stream=1), build.add(0, stream=0)
    last = build.add(0, stream=0, after=[(other, NO_LAG), (own, NO_LAG), (SOURCE, 0)])
    path = critical_path(build.finish(), np.array([1.0]), np.array([0.5]))
    assert path.tasks.tolist() == [own, last]
    late = critical_path(build.finish(), np.array([1.0]), np.array([5.0]))
    assert late.tasks.tolist() == [last]
    assert late.lag_counts.tolist() == [1]
    assert late.length == 6.0


def test_no_tasks():
    path = critical_path(GraphBuilder().finish(), np.zeros(1), np.zeros(0))
    assert path.length == 0.0
    assert not len(path.tasks)
