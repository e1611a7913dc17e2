"""The step program: every chunk of every stage and micro-batch, the messages between stages, the gradient buckets, the
optimizer and the parameter gathers.

Rows of its duration and lag tables are named here once, so that whoever fills the tables and whoever reads the result
agree. Messages between stages are lags: a chunk that waits for its neighbour's result waits that much longer, and a
sender that blocks, or whose wire is still busy, starts its next chunk later.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from simcluster.parallel.schedules import stage_orders
from simcluster.parallel.schedules.order import BACKWARD, FORWARD
from simcluster.program.graph import NO_LAG, SOURCE, Ints, TaskGraph, graph_from_edges

POSITIONS = 3  # first, middle, last micro-batch of a chunk


@dataclass(frozen=True, slots=True)
class StepShape:
    """All that fixes the structure of a step program (durations apart); hashable, so programs are cached.

    grad_buckets      [stage][chunk] number of gradient buckets
    gather_buckets    [stage][chunk] number of parameter gathers (zero: parameters are not sharded)
    overlap_reduce    buckets may start while the last backward of their chunk runs
    overlap_gather    gathers run at the start of the step beside the first forward, instead of after the optimizer
    tied_embedding    first and last stage exchange the gradient of a shared embedding
    wires             chunks move shards of parameters or gradients over a wire of their own
    replica_wires     they also sum shards over replicas, on another one
    """

    schedule: str
    pp: int
    micro_batches: int
    virtual_stages: int
    group: int | None
    grad_buckets: tuple[tuple[int, ...], ...]
    gather_buckets: tuple[tuple[int, ...], ...]
    overlap_reduce: bool
    overlap_gather: bool
    tied_embedding: bool
    wires: bool = False
    replica_wires: bool = False

    @property
    def wire_count(self) -> int:
        """Wires that run beside a chunk."""
        return int(self.wires) + int(self.replica_wires)


@dataclass(frozen=True)
class StepRows:
    """Rows of the duration and lag tables of a step: chunk durations [kind, virtual stage, position], message and
    own-stage lags [kind, virtual stage], then buckets and gathers as many as there are.
    """

    shape: StepShape
    buckets: int
    gathers: int

    @property
    def parts(self) -> int:
        """Virtual stages of the whole pipeline."""
        return self.shape.pp * self.shape.virtual_stages

    def chunk_row(self, kind: int, virtual_stage: int, position: int) -> int:
        """Duration row of a chunk."""
        return (kind * self.parts + virtual_stage) * POSITIONS + position

    @property
    def bucket_base(self) -> int:
        """First duration row of the gradient buckets; gathers, then barrier, tied, optimizer of each stage follow."""
        return 2 * self.parts * POSITIONS

    @property
    def gather_base(self) -> int:
        """First duration row of the parameter gathers."""
        return self.bucket_base + self.buckets

    @property
    def barrier_row(self) -> int:
        """Duration row of the gradient norm; the tied embedding's exchange is the next."""
        return self.gather_base + self.gathers

    @property
    def optimizer_base(self) -> int:
        """First duration row of the optimizer, one for each stage."""
        return self.barrier_row + 2

    @property
    def wire_base(self) -> int:
        """First duration row of the chunks' wires, in the order of the chunk rows."""
        return self.optimizer_base + self.shape.pp

    @property
    def replica_base(self) -> int:
        """First duration row of the chunks' replica wires, in the order of the chunk rows."""
        return self.wire_base + self.chunk_rows

    @property
    def chunk_rows(self) -> int:
        """Rows of a table over chunks."""
        return 2 * self.parts * POSITIONS

    @property
    def duration_rows(self) -> int:
        """Rows of the duration table."""
        return self.wire_base + self.chunk_rows * self.shape.wire_count

    def message_lag(self, kind: int, virtual_stage: int) -> int:
        """Lag row of the message that chunk (kind, virtual stage) receives."""
        return kind * self.parts + virtual_stage

    def own_lag(self, kind: int, virtual_stage: int) -> int:
        """Lag row by which chunk (kind, virtual stage) delays the next chunk of its own stage."""
        return 2 * self.parts + kind * self.parts + virtual_stage

    @property
    def release_base(self) -> int:
        """First lag row of the gradient buckets: ready that long after their chunk ends (negative: before)."""
        return 4 * self.parts

    @property
    def need_base(self) -> int:
        """First lag row of the gathers: minus the time into the first forward at which the parameters are needed."""
        return self.release_base + self.buckets

    @property
    def busy_wire_base(self) -> int:
        """First lag row by which a busy wire delays a chunk.

        As many rows each: compute, its wire, its replica wire; then what a busy replica wire delays, itself.
        """
        return self.need_base + self.gathers

    @property
    def lag_rows(self) -> int:
        """Rows of the lag table."""
        return self.busy_wire_base + 2 * self.chunk_rows * self.shape.wire_count


@dataclass(frozen=True)
class StepProgram(StepRows):
    """A compiled step.

    tasks: chunks first (in stage order), their wires in the same order if there are any, then gathers, buckets,
    barrier, optimizer. Buckets and gathers are (stage, chunk, index) in the order of their rows.
    """

    graph: TaskGraph
    kind: Ints
    micro: Ints
    virtual_stage: Ints
    chunk_tasks: int
    bucket_rows: tuple[tuple[int, int, int], ...]
    gather_rows: tuple[tuple[int, int, int], ...]


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
    """Chunk tasks of all stages as arrays, and where to find one by (kind, micro-batch, virtual stage)."""

    kind: Ints
    micro: Ints
    virtual: Ints
    stage: Ints
    index: Ints
    starts: Ints

    @staticmethod
    def of(shape: StepShape) -> _Chunks:
        orders = stage_orders(shape.schedule, shape.pp, shape.micro_batches, shape.virtual_stages, shape.group)
        kind = np.concatenate([order.kind for order in orders])
        micro = np.concatenate([order.micro for order in orders])
        stage = np.repeat(np.arange(shape.pp), [len(order) for order in orders])
        virtual = np.concatenate([order.chunk for order in orders]) * shape.pp + stage
        parts = shape.pp * shape.virtual_stages
        index = np.full((2, shape.micro_batches, parts), -1, dtype=np.int64)
        index[kind, micro, virtual] = np.arange(len(kind))
        starts = np.concatenate([[0], np.cumsum([len(order) for order in orders])])
        return _Chunks(kind, micro, virtual, stage, index, starts)


def _chunk_edges(edges: _Edges, chunks: _Chunks, parts: int, offset: int = 0) -> None:
    """Own stage first: an op follows the one before it; then the neighbour whose result it needs.

    `offset` shifts the consumers: a chunk's wire starts when its compute may.
    """
    number = np.arange(len(chunks.kind))
    follows = np.flatnonzero(np.diff(chunks.stage, prepend=-1) == 0)
    before = follows - 1
    edges.add(follows + offset, before, 2 * parts + chunks.kind[before] * parts + chunks.virtual[before])
    source = np.where(chunks.kind == FORWARD, chunks.virtual - 1, chunks.virtual + 1)
    needs = number[(source >= 0) & (source < parts)]
    producer = chunks.index[chunks.kind[needs], chunks.micro[needs], source[needs]]
    edges.add(needs + offset, producer, chunks.kind[needs] * parts + chunks.virtual[needs])


def _wire_edges(edges: _Edges, chunks: _Chunks, chunk_rows: Ints, rows: StepRows) -> None:
    """A chunk's wires start with it, each after that of the chunk before; a busy wire holds back what waits for it.

    Tasks: chunks, their wires, their replica wires if there are any.
    """
    count, table, wires = len(chunks.kind), rows.chunk_rows, rows.shape.wire_count
    follows = np.flatnonzero(np.diff(chunks.stage, prepend=-1) == 0)
    before, lags = follows - 1, rows.busy_wire_base + chunk_rows[follows]
    for wire in range(1, wires + 1):
        _chunk_edges(edges, chunks, rows.parts, offset=wire * count)
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

    def _chunk(self, kind: int, micro: int, stage: int, chunk: int) -> int:
        return int(self.chunks.index[kind, micro, chunk * self.shape.pp + stage])

    def buckets(self) -> list[int]:
        """Gradient buckets, one after the other on a stage's stream; returns what each stage's barrier waits for."""
        ends = [int(self.chunks.starts[stage + 1]) - 1 for stage in range(self.shape.pp)]
        finish = list(ends)
        for row, (stage, chunk, _) in enumerate(self.bucket_rows):
            task = self.task(self.shape.pp + stage)
            if finish[stage] != ends[stage]:
                self.edges.add(task, finish[stage], NO_LAG)
            last = self._chunk(BACKWARD, self.shape.micro_batches - 1, stage, chunk)
            if self.shape.overlap_reduce:
                self.edges.add(task, last, self.rows.release_base + row)
            else:
                self.edges.add(task, ends[stage], NO_LAG)
            finish[stage] = task
        return finish

    def optimizer(self, reduced: list[int]) -> list[int]:
        """Tied-embedding exchange and gradient norm over all stages, then the optimizer of each stage."""
        shape = self.shape
        ends = self.chunks.starts[1:] - 1
        tasks = len(self.chunks.kind)
        wires = [int(end) + tasks * wire for wire in range(1, shape.wire_count + 1) for end in ends]
        waits = list(dict.fromkeys((*reduced, *(int(end) for end in ends), *wires)))
        barrier, tied = self.task(0), self.task(0)
        for end in (0, shape.pp - 1) if shape.tied_embedding else ():
            self.edges.add(tied, int(ends[end]), NO_LAG)
        for wait in (*waits, tied):
            self.edges.add(barrier, wait, NO_LAG)
        steps = [self.task(stage) for stage in range(shape.pp)]
        for step in steps:
            self.edges.add(step, barrier, NO_LAG)
        return steps

    def gathers(self) -> list[int]:
        """Gathers that run beside the first forward: from the start of the step, on the stage's own stream."""
        tasks, previous = [], dict.fromkeys(range(self.shape.pp), SOURCE)
        for row, (stage, chunk, _) in enumerate(self.gather_rows):
            task = self.task(self.shape.pp + stage)
            self.edges.add(task, previous[stage], NO_LAG)
            if self.shape.overlap_gather:
                first = self._chunk(FORWARD, 0, stage, chunk)
                self.edges.add(first, task, self.rows.need_base + row)
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
    parts = shape.pp * shape.virtual_stages
    edges = _Edges()
    _chunk_edges(edges, chunks, parts)
    tail = _Tail(shape, chunks, edges)
    gathers = tail.gathers()
    reduced = tail.buckets()
    steps = tail.optimizer(reduced)
    _hang_gathers_behind(tail, gathers, steps)
    rows = tail.rows
    chunk_rows = (chunks.kind * parts + chunks.virtual) * POSITIONS + _positions(shape, chunks.micro)
    if shape.wires:
        _wire_edges(edges, chunks, chunk_rows, rows)
    wire_rows = [rows.wire_base + wire * rows.chunk_rows + chunk_rows for wire in range(shape.wire_count)]
    behind = (
        *range(rows.gather_base, rows.barrier_row),
        *range(rows.bucket_base, rows.gather_base),
        *range(rows.barrier_row, rows.wire_base),
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
    )
