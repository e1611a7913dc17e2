"""Task graphs: levels, cycles, and the same graph from different descriptions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.program.graph import NO_LAG, SOURCE, GraphBuilder, graph_from_edges, join_edges


@st.composite
def edges(draw):
    """Predecessors of each task, all before it."""
    count = draw(st.integers(1, 12))
    return [
        tuple((p, NO_LAG) for p in sorted(draw(st.sets(st.integers(SOURCE, task - 1), max_size=3))))
        for task in range(count)
    ]


@given(edges())
def test_every_task_comes_after_its_predecessors(own):
    count = len(own)
    graph = join_edges(np.arange(count), np.zeros(count, dtype=np.int64), own)
    order = graph.level_order.tolist()
    assert sorted(order) == list(range(count))
    place = {task: position for position, task in enumerate(order)}
    for task, before in enumerate(own):
        assert all(p == SOURCE or place[p] < place[task] for p, _ in before)
    bounds = [(level.start, level.stop) for level in graph.levels]
    assert bounds[0][0] == 0
    assert bounds[-1][1] == count
    for level in graph.levels:  # predecessors by position: the source, or an earlier level
        assert ((level.predecessors == count) | (level.predecessors < level.start)).all()


@given(edges(), st.randoms())
def test_edges_may_come_in_any_order(own, random):
    count = len(own)
    flat = [(task, p, lag) for task, before in enumerate(own) for p, lag in before]
    random.shuffle(flat)
    columns = np.array(flat, dtype=np.int64).reshape(-1, 3).T
    one = join_edges(np.arange(count), np.zeros(count, dtype=np.int64), own)
    other = graph_from_edges(np.arange(count), np.zeros(count, dtype=np.int64), *columns)
    assert one.pointer.tolist() == other.pointer.tolist()
    for task in range(count):
        span = slice(one.pointer[task], one.pointer[task + 1])
        assert sorted(one.predecessor[span]) == sorted(other.predecessor[span])
    assert one.level_order.tolist() == other.level_order.tolist()


def test_a_ring_is_refused():
    ring = join_edges(np.arange(2), np.zeros(2, dtype=np.int64), [((1, NO_LAG),), ((0, NO_LAG),)])
    with pytest.raises(ValueError, match="cycle"):
        ring.level_order  # noqa: B018 - computed when read


def test_an_empty_program():
    graph = GraphBuilder().finish()
    assert len(graph) == 0
    assert graph.levels == ()
    assert graph.level_order.size == 0


def test_builder_numbers_its_tasks():
    builder = GraphBuilder()
    first, second = builder.add(7, stream=3), builder.add(8, after=[(SOURCE, 2)])
    graph = builder.finish()
    assert (first, second) == (0, 1)
    assert graph.duration.tolist() == [7, 8]
    assert graph.stream.tolist() == [3, 0]
    assert graph.lag.tolist() == [2]
