"""The step program: every chunk of every stage and micro-batch, the messages between stages, the gradient buckets, the
optimizer and the parameter gathers.

Messages between stages are lags: a chunk that waits for its neighbour's result waits that much longer, and a
sender that blocks, or whose wire is still busy, starts its next chunk later.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from simcluster.parallel.schedules import stage_orders
from simcluster.parallel.schedules.order import BACKWARD, FORWARD, INPUT, WEIGHT
from simcluster.program.graph import NO_LAG, SOURCE, Ints, TaskGraph, graph_from_edges
from simcluster.program.step_offload import Waits, add_offload
from simcluster.program.step_rows import POSITIONS, StepRows, StepShape

__all__ = ["POSITIONS", "StepProgram", "StepRows", "StepShape", "step_program"]

GRADIENTS = 2  # behind forward and backward in an index of tasks: the one after which gradients are complete


@dataclass(frozen=True)
class StepProgram(StepRows):
    """A compiled step.

    tasks: chunks first (in stage order), their wires in the same order if there are any, then gathers, buckets,
    barrier, optimizer, then what moves to and from the host. Buckets, gathers and copies to the host are (stage, chunk,
    index) in the order of their rows.

    pair           (chunk tasks,) 1 and 2: forward and backward of an overlapped pair, which start and end together and
                   whose time is that of the first; else 0
    gradient_kind  (virtual stages,) kind of the operation after which the last gradients are complete
    """

    graph: TaskGraph
    kind: Ints
    micro: Ints
    virtual_stage: Ints
    chunk_tasks: int
    bucket_rows: tuple[tuple[int, int, int], ...]
    gather_rows: tuple[tuple[int, int, int], ...]
    pair: Ints
    gradient_kind: tuple[int, ...]
    copy_rows: tuple[tuple[int, int, int], ...] = ()


class _Edges:
    def __init__(self) -> None:
        self.parts: list[tuple[Ints, Ints, Ints]] = []

    def add(self, consumer: Ints | int, producer: Ints | int, lag: Ints | int) -> None:
        arrays = np.broadcast_arrays(np.atleast_1d(consumer), np.atleast_1d(producer), np.atleast_1d(lag))
        self.parts.append((arrays[0].astype(np.int64), arrays[1].astype(np.int64), arrays[2].astype(np.int64)))

    def arrays(self) -> tuple[Ints, Ints, Ints]:
        columns = tuple(np.concatenate([part[i] for part in self.parts]) for i in range(3))
        return columns[0], columns[1], columns[2]


@dataclass(frozen=True)
class _Chunks:
    """Chunk tasks of all stages as arrays, and where to find one by (kind, micro-batch, virtual stage).

    index   of forward, backward (input gradients), and of what completes the weight gradients
    pair    1, 2: forward and backward of an overlapped pair
    last    (virtual stages,) the last task that makes gradients
    """

    kind: Ints
    micro: Ints
    virtual: Ints
    stage: Ints
    index: Ints
    starts: Ints
    pair: Ints
    last: Ints

    @staticmethod
    def of(shape: StepShape) -> _Chunks:
        orders = stage_orders(shape.schedule, shape.pp, shape.micro_batches, shape.virtual_stages, shape.group)
        kind = np.concatenate([order.kind for order in orders])
        micro = np.concatenate([order.micro for order in orders])
        stage = np.repeat(np.arange(shape.pp), [len(order) for order in orders])
        virtual = np.concatenate([order.chunk for order in orders]) * shape.pp + stage
        parts = shape.pp * shape.virtual_stages
        starts = np.concatenate([[0], np.cumsum([len(order) for order in orders])])
        index = np.full((GRADIENTS + 1, shape.micro_batches, parts), -1, dtype=np.int64)
        for kinds, row in (((FORWARD,), 0), ((BACKWARD, INPUT), 1), ((BACKWARD, WEIGHT), GRADIENTS)):
            tasks = np.flatnonzero(np.isin(kind, kinds))
            index[row, micro[tasks], virtual[tasks]] = tasks
        pair = np.zeros(len(kind), dtype=np.int64)
        for order, start in zip(orders, starts):
            pair[start + order.pairs] = 1
            pair[start + order.pairs + 1] = 2
        return _Chunks(kind, micro, virtual, stage, index, starts, pair, index[GRADIENTS].max(axis=0))

    def rows(self, rows: StepRows) -> Ints:
        """Duration row of every chunk task."""
        place = _positions(rows.shape, self.micro)
        found = (self.kind * rows.parts + self.virtual) * POSITIONS + place
        first = np.flatnonzero(self.pair == 1)
        found[first] = rows.pair_row(self.virtual[first], self.virtual[first + 1], place[first])
        found[self.pair == 2] = rows.beside_row
        return found


def _chunk_edges(edges: _Edges, chunks: _Chunks, rows: StepRows, offset: int = 0) -> None:
    """Own stage first: an op follows the one before it; then the neighbour whose result it needs.

    `offset` shifts the consumers: a chunk's wire starts when its compute may.
    """
    parts = rows.parts
    follows = np.flatnonzero(np.diff(chunks.stage, prepend=-1) == 0)
    before = follows - 1
    held = np.where(chunks.pair[before] == 1, NO_LAG, rows.own_lag(chunks.kind[before], chunks.virtual[before]))
    edges.add(follows + offset, before, held)
    for kind in (FORWARD, BACKWARD):
        senders = rows.senders(kind)
        tasks = chunks.index[kind]
        tasks = tasks[tasks >= 0]
        needs = tasks[senders[chunks.virtual[tasks]] >= 0]
        producer = chunks.index[kind, chunks.micro[needs], senders[chunks.virtual[needs]]]
        lags = kind * parts + chunks.virtual[needs]
        edges.add(needs + offset, producer, lags)
        paired = (kind == BACKWARD) & (chunks.pair[needs] == 2)
        edges.add(needs[paired] - 1 + offset, producer[paired], lags[paired])  # both of a pair start together
    after = np.flatnonzero(chunks.pair == 1) + 2
    after = after[np.isin(after, follows)]
    edges.add(after + offset, after - 2, rows.own_lag(chunks.kind[after - 2], chunks.virtual[after - 2]))


def _wire_edges(edges: _Edges, chunks: _Chunks, chunk_rows: Ints, rows: StepRows) -> None:
    """A chunk's wires start with it, each after that of the chunk before; a busy wire holds back what waits for it.

    Tasks: chunks, their wires, their replica wires if there are any.
    """
    count, table, wires = len(chunks.kind), rows.chunk_rows, rows.shape.wire_count
    follows = np.flatnonzero(np.diff(chunks.stage, prepend=-1) == 0)
    before, lags = follows - 1, rows.busy_wire_base + chunk_rows[follows]
    for wire in range(1, wires + 1):
        _chunk_edges(edges, chunks, rows, offset=wire * count)
    edges.add(follows, before + count, lags)
    edges.add(follows + count, before + count, lags + table)
    if wires > 1:
        edges.add(follows + 2 * count, before + count, lags + 2 * table)
        edges.add(follows + 2 * count, before + 2 * count, lags + 3 * table)


def _positions(shape: StepShape, micro: Ints) -> Ints:
    last = np.where(micro == shape.micro_batches - 1, 2, 1)
    return np.where(micro == 0, np.where(shape.micro_batches == 1, 2, 0), last)


class _Tail:
    """Adds gathers, buckets, barrier, optimizer behind the chunk tasks; keeps the running task number."""

    def __init__(self, shape: StepShape, chunks: _Chunks, edges: _Edges) -> None:
        self.shape, self.chunks, self.edges = shape, chunks, edges
        self.count = len(chunks.kind) * (1 + shape.wire_count)
        self.streams: list[int] = []
        self.bucket_rows = self._rows(shape.grad_buckets)
        self.gather_rows = self._rows(shape.gather_buckets, forward=True)
        self.copy_rows = self._rows(shape.host_copies)
        self.bucket_tasks: dict[tuple[int, int, int], int] = {}
        self.rows = StepRows(shape, len(self.bucket_rows), len(self.gather_rows))

    @staticmethod
    def _rows(counts: tuple[tuple[int, ...], ...], forward: bool = False) -> tuple[tuple[int, int, int], ...]:
        """(stage, chunk, index) in the order of a stage's stream; backward takes the last chunk first."""
        rows = []
        for stage, chunks in enumerate(counts):
            order = range(len(chunks)) if forward else reversed(range(len(chunks)))
            rows += [(stage, chunk, index) for chunk in order for index in range(chunks[chunk])]
        return tuple(rows)

    def task(self, stream: int) -> int:
        self.streams.append(stream)
        self.count += 1
        return self.count - 1

    def first_forward(self, stage: int, chunk: int) -> int:
        """First forward of a chunk."""
        tasks = self.chunks.index[FORWARD, :, chunk * self.shape.pp + stage]
        return int(tasks[tasks >= 0].min())

    def buckets(self) -> list[int]:
        """Gradient buckets, one after the other on a stage's stream; returns what each stage's barrier waits for."""
        ends = [int(self.chunks.starts[stage + 1]) - 1 for stage in range(self.shape.pp)]
        finish = list(ends)
        for row, (stage, chunk, _) in enumerate(self.bucket_rows):
            task = self.task(self.shape.pp + stage)
            if finish[stage] != ends[stage]:
                self.edges.add(task, finish[stage], NO_LAG)
            last = int(self.chunks.last[chunk * self.shape.pp + stage])
            if self.shape.overlap_reduce:
                self.edges.add(task, last, self.rows.release_base + row)
            else:
                self.edges.add(task, ends[stage], NO_LAG)
            finish[stage] = self.bucket_tasks[self.bucket_rows[row]] = task
        return finish

    def optimizer(self, reduced: list[int]) -> list[int]:
        """Tied-embedding exchange and gradient norm over all stages, then the optimizer of each stage.

        In a rolling schedule each stage waits for itself alone, and for the exchange that it takes part in.
        """
        shape = self.shape
        ends = self.chunks.starts[1:] - 1
        tasks = len(self.chunks.kind)
        wires = [int(end) + tasks * wire for wire in range(1, shape.wire_count + 1) for end in ends]
        waits = list(dict.fromkeys((*reduced, *(int(end) for end in ends), *wires)))
        barrier, tied = self.task(0), self.task(0)
        holders = (shape.ends or (0, shape.pp - 1)) if shape.tied_embedding else ()
        for end in holders:
            self.edges.add(tied, int(ends[end]), NO_LAG)
        steps = [self.task(stage) for stage in range(shape.pp)]
        for wait in () if shape.rolling else (*waits, tied):
            self.edges.add(barrier, wait, NO_LAG)
        for stage, step in enumerate(steps):
            own = (reduced[stage], int(ends[stage]), *([tied] if stage in holders else []))
            for wait in own if shape.rolling else (barrier,):
                self.edges.add(step, wait, NO_LAG)
        if self.copy_rows:
            self.offload(barrier, tied, holders, steps)
        return steps

    def offload(self, barrier: int, tied: int, holders: tuple[int, ...], steps: list[int]) -> None:
        """What moves to and from the host; the optimizer on the GPU only clears gradients, when all of it is done."""
        shape, chunks = self.shape, self.chunks
        wires = len(chunks.kind) * shape.wire_count  # shards are summed when the last wire has ended
        pairs = {(stage, chunk) for stage, chunk, _ in self.copy_rows}
        waits = Waits(
            reduced=self.bucket_tasks,
            made={(stage, chunk): int(chunks.last[chunk * shape.pp + stage]) + wires for stage, chunk in pairs},
            ends=[int(end) - 1 for end in chunks.starts[1:]],
            barrier=None if shape.rolling else barrier,
            tied=tied,
            holders=holders,
        )
        add_offload(self.rows, self.copy_rows, waits, steps, self.task, self.edges.add)

    def gathers(self) -> list[int]:
        """Gathers that run beside the first forward: from the start of the step, on the stage's own stream."""
        tasks, previous = [], dict.fromkeys(range(self.shape.pp), SOURCE)
        for row, (stage, chunk, _) in enumerate(self.gather_rows):
            task = self.task(self.shape.pp + stage)
            self.edges.add(task, previous[stage], NO_LAG)
            if self.shape.overlap_gather:
                self.edges.add(self.first_forward(stage, chunk), task, self.rows.need_base + row)
            previous[stage] = task
            tasks.append(task)
        return tasks


def _hang_gathers_behind(tail: _Tail, gathers: list[int], steps: list[int]) -> None:
    """Without overlap, parameters are gathered after the optimizer of their stage."""
    if not tail.shape.overlap_gather:
        for task, (stage, _, _) in zip(gathers, tail.gather_rows):
            tail.edges.add(task, steps[stage], NO_LAG)


@lru_cache(maxsize=256)
def step_program(shape: StepShape) -> StepProgram:
    """Compiles a step; programs of equal shape are shared.

    >>> shape = StepShape("1f1b", 2, 4, 1, None, ((1,), (1,)), ((0,), (0,)), True, False, False)
    >>> program = step_program(shape)
    >>> program.chunk_tasks, len(program.graph)
    (16, 22)
    """
    chunks = _Chunks.of(shape)
    edges = _Edges()
    tail = _Tail(shape, chunks, edges)
    _chunk_edges(edges, chunks, tail.rows)
    gathers = tail.gathers()
    reduced = tail.buckets()
    steps = tail.optimizer(reduced)
    _hang_gathers_behind(tail, gathers, steps)
    rows = tail.rows
    chunk_rows = chunks.rows(rows)
    if shape.wires:
        _wire_edges(edges, chunks, chunk_rows, rows)
    wire_rows = [rows.wire_base + wire * rows.chunk_rows + chunk_rows for wire in range(shape.wire_count)]
    behind = (
        *range(rows.gather_base, rows.barrier_row),
        *range(rows.bucket_base, rows.gather_base),
        *range(rows.barrier_row, rows.wire_base),
        *range(rows.to_host_base, rows.duration_rows),
    )
    duration = np.concatenate([chunk_rows, *wire_rows, np.asarray(behind, dtype=np.int64)])
    wire_streams = [chunks.stage + (2 + wire) * shape.pp for wire in range(shape.wire_count)]
    stream = np.concatenate([chunks.stage, *wire_streams, np.asarray(tail.streams, dtype=np.int64)])
    graph = graph_from_edges(duration, stream, *edges.arrays())
    return StepProgram(
        shape,
        rows.buckets,
        rows.gathers,
        graph,
        chunks.kind,
        chunks.micro,
        chunks.virtual,
        len(chunks.kind),
        tail.bucket_rows,
        tail.gather_rows,
        chunks.pair,
        tuple(chunks.kind[chunks.last].tolist()),
        tail.copy_rows,
    )
