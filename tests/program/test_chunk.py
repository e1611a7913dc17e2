"""The chunk program: its tasks, and its times against networkx and against queues that are stepped through by hand."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.engine.maxplus import solve
from simcluster.program.chunk import COMPUTE, REPLICA_WIRE, SHARD_WIRE, ChunkShape, chunk_program

SHAPES = st.builds(
    ChunkShape, st.integers(1, 9), st.booleans(), st.booleans(), st.booleans(), st.integers(0, 3)
)  # fmt: skip


def issue_order(shape):
    """Transfers of the shards' wire in issue order: ("gather" | "scatter", unit).

    The first unit is gathered alone, the next ones (`ahead` of them) when it runs; a unit's reduction is issued when
    its block has been, before the gather that looks ahead from the next block.
    """
    order = [("gather", 0)] if shape.gathers else []
    for unit in range(shape.blocks):
        if shape.gathers:
            known = sum(kind == "gather" for kind, _ in order)
            order += [("gather", nearby) for nearby in range(known, min(shape.blocks, unit + 1 + shape.ahead))]
            if ("gather", unit) not in order:
                order.append(("gather", unit))
        if shape.scatters:
            order.append(("scatter", unit))
    return order


def rules(shape, times):
    """(task, seconds, tasks before it) of a chunk, written down from what each must wait for."""
    found = []
    for unit in range(shape.blocks):
        before = [("block", unit - 1)] * (unit > 0) + [("gather", unit)] * shape.gathers
        found.append((("block", unit), times["block"][unit], before))
    last = None
    for task in issue_order(shape):
        kind, unit = task
        before = [last] if last else []
        if kind == "scatter":
            before.append(("block", unit))
        elif unit - 1 - shape.ahead >= 0:
            before.append(("block", unit - 1 - shape.ahead))
        found.append((task, times[kind][unit], before))
        last = task
    for unit in range(shape.blocks if shape.scatters and shape.replicas else 0):
        before = [("scatter", unit)] + [("replica", unit - 1)] * (unit > 0)
        found.append((("replica", unit), times["replica"][unit], before))
    return found


def by_networkx(shape, times):
    graph = nx.DiGraph()
    tasks = rules(shape, times)
    length = {task: seconds for task, seconds, _ in tasks}
    for task, seconds, before in tasks:
        graph.add_edge(task, "end", weight=seconds)
        for earlier in before:
            graph.add_edge(earlier, task, weight=length[earlier])
    return nx.dag_longest_path_length(graph)


def by_queues(shape, times):
    """Three queues; whichever head can start first starts, until all are empty."""
    tasks = {task: (seconds, before) for task, seconds, before in rules(shape, times)}
    queues = [
        [task for task in tasks if task[0] in kinds] for kinds in (("block",), ("gather", "scatter"), ("replica",))
    ]
    free, end = [0.0, 0.0, 0.0], {}
    while any(queues):
        ready = [
            (max([free[i], *(end[earlier] for earlier in tasks[queue[0]][1])]), i)
            for i, queue in enumerate(queues)
            if queue and all(earlier in end for earlier in tasks[queue[0]][1])
        ]
        start, i = min(ready)
        task = queues[i].pop(0)
        end[task] = free[i] = start + tasks[task][0]
    return end


def by_program(shape, times):
    program = chunk_program(shape)
    count = shape.blocks
    table = np.zeros((4 * count + 1, 1))
    for row, kind in enumerate(("block", "gather", "scatter", "replica")):
        table[row * count : (row + 1) * count, 0] = times[kind]
    return program, solve(program.graph, table, np.zeros((count, 1)))[:, 0]


def random_times(shape, seed):
    rng = np.random.default_rng(seed)
    return {kind: rng.uniform(0, 1, shape.blocks) for kind in ("block", "gather", "scatter", "replica")}


@given(SHAPES, st.integers(0, 2**32 - 1))
def test_equals_queues_and_networkx(shape, seed):
    times = random_times(shape, seed)
    program, ends = by_program(shape, times)
    stepped = by_queues(shape, times)
    assert [ends[task] for task in program.compute] == pytest.approx(
        [stepped["block", unit] for unit in range(shape.blocks)], rel=1e-12
    )
    assert ends.max() == pytest.approx(max(stepped.values()), rel=1e-12)
    assert ends.max() == pytest.approx(by_networkx(shape, times), rel=1e-12)


@given(SHAPES)
def test_each_unit_moves_once(shape):
    program = chunk_program(shape)
    count = shape.blocks
    streams = np.bincount(program.graph.stream, minlength=3)
    moved = count * (int(shape.gathers) + int(shape.scatters))
    replicas = count * int(shape.scatters and shape.replicas)
    assert streams[COMPUTE] == count
    assert streams[SHARD_WIRE] == moved + (1 if moved else 0)  # and the moment at which the wire becomes free
    assert streams[REPLICA_WIRE] == replicas
    assert len(program.shards) + len(program.replicas) == moved + replicas
    rows = program.graph.duration[[*program.shards, *program.replicas]]
    assert len(set(rows.tolist())) == len(rows)


@given(SHAPES, st.integers(0, 2**32 - 1))
def test_wires_never_carry_two_things_at_once(shape, seed):
    times = random_times(shape, seed)
    program, ends = by_program(shape, times)
    table = np.concatenate([*times.values(), [0.0]])
    starts = ends - table[program.graph.duration]
    for stream in (COMPUTE, SHARD_WIRE, REPLICA_WIRE):
        tasks = np.flatnonzero(program.graph.stream == stream)
        order = tasks[np.argsort(starts[tasks], kind="stable")]
        assert (starts[order][1:] >= ends[order][:-1] - 1e-12).all()


@given(SHAPES, st.integers(0, 2**32 - 1), st.integers(0, 8), st.floats(0, 5))
def test_no_more_units_are_gathered_than_may_be_held(shape, seed, slow, wait):
    """A gather that looks ahead waits until the unit that far behind has run."""
    if not shape.gathers:
        return
    times = random_times(shape, seed)
    times["block"][slow % shape.blocks] += wait
    program, ends = by_program(shape, times)
    gathers = {}
    for task in (*program.shards, *program.replicas):
        row = program.graph.duration[task]
        if shape.blocks <= row < 2 * shape.blocks:
            gathers[row - shape.blocks] = ends[task] - times["gather"][row - shape.blocks]
    for unit, start in gathers.items():
        behind = unit - 1 - shape.ahead
        if behind >= 0:
            assert start >= ends[program.compute[behind]] - 1e-12


@given(SHAPES, st.integers(0, 2**32 - 1), st.integers(0, 35), st.floats(0, 2))
def test_nothing_gets_faster_when_something_gets_slower(shape, seed, which, more):
    times = random_times(shape, seed)
    kind = ("block", "gather", "scatter", "replica")[which % 4]
    _, before = by_program(shape, times)
    times[kind][which % shape.blocks] += more
    _, after = by_program(shape, times)
    assert (after >= before - 1e-12).all()


def test_programs_of_one_shape_are_one():
    assert chunk_program(ChunkShape(3, True)) is chunk_program(ChunkShape(3, True))
